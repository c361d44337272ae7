//! Notes the commit, and links the program so that heap images outlive it: at fixed addresses, and the engine apart from everything else.
//!
//! Only the program of this package is linked so. Tests, examples and programs that use the library stay position
//! independent; images work there too, but not from one process to the next. The running program finds out by itself
//! how it was linked (`src/image/build`), so a linker that cannot do this costs a feature and not correctness.

use std::env;
use std::path::Path;
use std::process::Command;

const LAYOUT: &str = "src/image/engine.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LAYOUT}");
    println!("cargo::rustc-env=SCOMP_COMMIT_SUFFIX={}", commit_suffix());
    if !is_supported_target() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Not every linker knows the script's language; the usual two do.
    if !has_own_linker() {
        let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", Path::new(&folder).join(LAYOUT).display());
    }
}

/// ` (commit)` for the version: what `SCOMP_COMMIT` says, or git, if there is one. Other builds than those of a release have
/// none, or every commit would compile the crate anew.
fn commit_suffix() -> String {
    println!("cargo::rerun-if-env-changed=SCOMP_COMMIT");
    let stated = env::var("SCOMP_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = stated.or_else(|| {
        if env::var("PROFILE").as_deref() != Ok("release") {
            return None;
        }
        let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
        if let Some(log) = log {
            println!("cargo::rerun-if-changed={log}");
        }
        git(&["rev-parse", "--short=12", "HEAD"])
    });
    commit.map(|commit| format!(" ({commit})")).unwrap_or_default()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn is_supported_target() -> bool {
    let is = |key: &str, value: &str| env::var(key).is_ok_and(|found| found == value);
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        // A static program is linked with other start files, which this flag does not fit.
        && !features.split(',').any(|feature| feature == "crt-static")
}

fn has_own_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("fuse-ld=") || flags.contains("linker=")
}
