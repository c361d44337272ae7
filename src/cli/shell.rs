//! `scomp-serve completions` and `scomp-serve man`: what a shell and a manual know of the commands.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Arguments;
use super::{Failure, output};

/// Prints the completions of a shell.
pub(super) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "scomp-serve", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page, with a section for each command.
pub(super) fn manual() -> Result<(), Failure> {
    let mut text = Vec::new();
    let command = Arguments::command();
    let failed = |error: std::io::Error| Failure::Run(error.to_string());
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for inner in command.get_subcommands() {
        text.extend(format!(".SH {}\n", inner.get_name().to_uppercase()).as_bytes());
        let page = clap_mangen::Man::new(inner.clone());
        page.render_description_section(&mut text).map_err(failed)?;
        page.render_options_section(&mut text).map_err(failed)?;
    }
    output::print(&String::from_utf8_lossy(&text))
}
