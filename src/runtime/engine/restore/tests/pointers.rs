//! What an image points to. A word may lead into the heap itself, or into the code and the constants of this program;
//! anything else would be wrong in another process. Only the runtime and the context themselves have words that are set
//! anew when a heap is continued.

use std::collections::BTreeSet;
use std::process::Command;

use super::{engine, eval};
use crate::runtime::engine::Engine;

/// Words in the runtime and the context that lead out: the three opaque pointers of the runtime and its hooks, that of the
/// context, and the two bounds of the stack.
const SET_ANEW: usize = 6;

/// Suspended functions of [`used_engine`]. The frame of each keeps the address of the frame that it was last resumed from,
/// on the stack of the thread; QuickJS writes it anew before it reads it.
const SUSPENDED: usize = 2;

/// Processes that look. A number, or text over a part of an old address, can look like the address of something that is
/// mapped by chance; but the system gives every process other addresses, and only a true address leads out in all of them.
const PROCESSES: usize = 8;

/// Set for the process that prints what it finds.
const IS_PRINTING: &str = "SCOMP_TEST_PRINT_WORDS";

/// Memory that is mapped, and whether it belongs to the file of this program.
struct Map {
    from: usize,
    to: usize,
    is_program: bool,
}

fn maps() -> Vec<Map> {
    let program = std::env::current_exe().unwrap();
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut maps: Vec<Map> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next().unwrap().split_once('-').unwrap();
        let (from, to) = (usize::from_str_radix(from, 16).unwrap(), usize::from_str_radix(to, 16).unwrap());
        let file = fields.nth(4).unwrap_or_default();
        // What is not initialized lies right behind the file, without a name.
        let is_behind = file.is_empty() && maps.last().is_some_and(|map| map.is_program && map.to == from);
        maps.push(Map { from, to, is_program: std::path::Path::new(file) == program || is_behind });
    }
    maps
}

/// The offsets of words that lead to mapped memory outside of heap and program.
fn words_leading_out(engine: &Engine) -> Vec<(usize, usize)> {
    let arena = engine.used().arena();
    let base = arena.window().pages_address();
    let pages = arena.copy_pages();
    let maps = maps();
    let leads_out = |word: usize| {
        let map = maps.iter().find(|map| (map.from..map.to).contains(&word));
        !(base..base + pages.len()).contains(&word) && map.is_some_and(|map| !map.is_program)
    };
    let words = pages.chunks_exact(size_of::<usize>()).enumerate();
    words
        .map(|(index, word)| (index * size_of::<usize>(), usize::from_ne_bytes(word.try_into().unwrap())))
        .filter(|(_, word)| leads_out(*word))
        .collect()
}

/// A context in which much has happened.
fn used_engine() -> Engine {
    let engine = engine();
    for code in [
        "var all = []; for (let i = 0; i < 2000; i++) all.push({ i, f: () => i, s: 'x' + i }); 0",
        "var p = new Promise(() => {}); (async () => { await p })(); Promise.reject(new Error('x')); 0",
        "var g = (function* () { yield* [1, 2, 3] })(); g.next(); var m = new Map([[g, new WeakRef(g)]]); 0",
        "var u = new URL('https://a.example/'); var t = new TextEncoder().encode('text'); structuredClone({ t }); 0",
        "var r = /(a)|b/g; r.exec('ab'); var px = new Proxy({}, {}); var big = 3n ** 300n; Symbol('s'); 0",
        "all.splice(100, 1000); try { (function f() { f() })() } catch (e) { var e1 = e } 0",
    ] {
        let result = eval(&engine, code);
        assert!(!result.starts_with("thrown"), "{code}: {result}");
    }
    engine
}

/// Prints a line for each word of a used context that leads out.
fn print_words() {
    let engine = used_engine();
    let base = engine.used().arena().window().pages_address();
    let owned = engine.runtime.blocks();
    let here = std::ptr::from_ref(&base).addr();
    let stack = maps().into_iter().find(|map| (map.from..map.to).contains(&here)).unwrap();
    for (offset, word) in words_leading_out(&engine) {
        let place = match () {
            () if owned.iter().any(|block| block.contains(&(base + offset))) => "set-anew",
            () if (stack.from..stack.to).contains(&word) => "stack",
            () => "elsewhere",
        };
        println!("word {place} {offset:#x}");
    }
}

fn words_in_another_process() -> BTreeSet<String> {
    let test = "runtime::engine::restore::tests::pointers::image_points_into_heap_and_program_only";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(IS_PRINTING, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("word ")).map(str::to_owned).collect()
}

#[test]
fn image_points_into_heap_and_program_only() {
    if std::env::var_os(IS_PRINTING).is_some() {
        return print_words();
    }
    let found = (0..PROCESSES).map(|_| words_in_another_process());
    let in_all = found.reduce(|one, other| &one & &other).unwrap();
    let count = |place: &str| in_all.iter().filter(|line| line.split(' ').nth(1) == Some(place)).count();
    let counts = (count("set-anew"), count("stack"), count("elsewhere"));
    assert_eq!(counts, (SET_ANEW, SUSPENDED, 0), "{in_all:?}");
}

#[test]
fn word_that_leads_out_is_found() {
    let engine = used_engine();
    let outside = Box::new(7u64);
    let address = std::ptr::from_ref(&*outside).addr();
    eval(&engine, &format!("var forged = new BigUint64Array([{address}n]); 0"));
    assert!(words_leading_out(&engine).iter().any(|(_, word)| *word == address));
}
