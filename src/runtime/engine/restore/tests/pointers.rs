//! What an image points to. A word may lead into the heap itself, or into the code and the constants of this program;
//! anything else would be wrong in another process. Only the runtime and the context themselves have words that are set
//! anew when a heap is continued.

use super::{engine, eval};
use crate::runtime::engine::Engine;

/// Words in the runtime and the context that lead out: the three opaque pointers of the runtime and its hooks, that of the
/// context, and the two bounds of the stack.
const SET_ANEW: usize = 6;

/// Suspended functions of [`used_engine`]. The frame of each keeps the address of the frame that it was last resumed from,
/// on the stack of the thread; QuickJS writes it anew before it reads it.
const SUSPENDED: usize = 2;

/// The tags of JavaScript values that use only the lower half of their word: numbers of 32 bits, booleans, null and
/// undefined. The upper half keeps what was there before.
const HALF_WORD_TAGS: std::ops::RangeInclusive<usize> = 0..=6;

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

/// A word that leads to mapped memory outside of heap and program, and the one behind it.
#[derive(Debug)]
struct Outward {
    offset: usize,
    word: usize,
    next: usize,
}

impl Outward {
    /// Whether this is a number that was written over an address on the stack: together with the upper half of what was
    /// there it looks like an address near the stack.
    fn is_number(&self, stack: &Map) -> bool {
        let is_on_stack = (stack.from..stack.to).contains(&self.word);
        !is_on_stack && self.word >> 32 == stack.from >> 32 && HALF_WORD_TAGS.contains(&self.next)
    }
}

fn words_leading_out(engine: &Engine) -> Vec<Outward> {
    let arena = engine.used().arena();
    let base = arena.window().pages_address();
    let pages = arena.copy_pages();
    let maps = maps();
    let leads_out = |word: usize| {
        let map = maps.iter().find(|map| (map.from..map.to).contains(&word));
        !(base..base + pages.len()).contains(&word) && map.is_some_and(|map| !map.is_program)
    };
    let words: Vec<usize> = pages
        .chunks_exact(size_of::<usize>())
        .map(|word| usize::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    let pairs = words.iter().zip(words[1..].iter().chain([&0])).enumerate();
    pairs
        .filter(|(_, (word, _))| leads_out(**word))
        .map(|(index, (word, next))| Outward { offset: index * size_of::<usize>(), word: *word, next: *next })
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

#[test]
fn image_points_into_heap_and_program_only() {
    let engine = used_engine();
    let base = engine.used().arena().window().pages_address();
    let owned = engine.runtime.blocks();
    let out = words_leading_out(&engine);
    let is_owned = |offset: usize| owned.iter().any(|block| block.contains(&(base + offset)));
    let (set_anew, mut others): (Vec<_>, Vec<_>) =
        out.into_iter().partition(|outward| is_owned(outward.offset));
    assert_eq!(set_anew.len(), SET_ANEW, "{set_anew:x?}");
    let here = std::ptr::from_ref(&base).addr();
    let stack = maps().into_iter().find(|map| (map.from..map.to).contains(&here)).unwrap();
    others.retain(|outward| !outward.is_number(&stack));
    assert!(others.iter().all(|outward| (stack.from..stack.to).contains(&outward.word)), "{others:x?}");
    assert_eq!(others.len(), SUSPENDED, "{others:x?}");
}

#[test]
fn word_that_leads_out_is_found() {
    let engine = used_engine();
    let before = words_leading_out(&engine).len();
    let outside = Box::new(7u64);
    let address = std::ptr::from_ref(&*outside).addr();
    eval(&engine, &format!("var forged = new BigUint64Array([{address}n]); 0"));
    assert!(words_leading_out(&engine).len() > before);
}
