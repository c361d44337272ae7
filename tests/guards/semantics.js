// Guarded built-ins behave as the specification says: ends with the list of those that do not.
const bad = [];
const eq = (name, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) bad.push(name + ': ' + JSON.stringify(got)?.slice(0,100) + ' != ' + JSON.stringify(want)?.slice(0,100)); };
const thr = (name, f, type) => { try { f(); bad.push(name + ' did not throw'); } catch (e) { if (e.name !== type) bad.push(name + ': ' + e.name + ' ' + e.message); } };
for (const [o, names] of [[Array.prototype, 'concat copyWithin flat flatMap join lastIndexOf includes indexOf sort toSorted toLocaleString'], [String.prototype, 'includes indexOf lastIndexOf replace replaceAll split normalize localeCompare'], [String, 'raw']]) for (const n of names.split(' ')) {
  const d = Object.getOwnPropertyDescriptor(o, n);
  eq(n, [d.writable, d.enumerable, d.configurable, d.value.name, 'prototype' in d.value], [true, false, true, n, false]);
  thr('new ' + n, () => new d.value(), 'TypeError');
}
eq('lengths', ['flat flatMap includes indexOf lastIndexOf sort'.split(' ').map(n => [][n].length), 'includes indexOf lastIndexOf replace replaceAll split normalize localeCompare'.split(' ').map(n => ''[n].length), String.raw.length], [[0,1,1,1,1,1],[1,1,1,2,2,2,0,1],1]);
const h = 'ab'.repeat(1<<13), n = 'ab'.repeat(1<<11) + 'c', big = h + n + h;
eq('find', [big.indexOf(n), big.indexOf(n, h.length), big.indexOf(n, h.length + 1), h.indexOf(n), big.lastIndexOf(n), big.lastIndexOf(n, h.length), big.lastIndexOf(n, h.length - 1), big.includes(n), h.includes(n)], [h.length, h.length, -1, -1, h.length, h.length, -1, true, false]);
const tw = h + n + h + n;
eq('findlast', [tw.lastIndexOf(n), tw.indexOf(n, h.length+1)], [2*h.length+n.length, 2*h.length+n.length]);
eq('split', big.split(n).map(s => s.length), [h.length, h.length]);
eq('split2', tw.split(n).map(s => s.length), [h.length, h.length, 0]);
eq('split3', tw.split(n, 1).map(s => s.length), [h.length]);
eq('replace', [tw.replace(n, '<$&>').length, tw.replace(n, 'x').length, tw.replace(n, "[$`|$'|$$|$1]").length, tw.replace(n, (m, at, all) => [m.length, at, all.length].join()).slice(h.length, h.length + String([n.length, h.length, tw.length]).length)], [tw.length+2, tw.length-n.length+1, h.length+1+h.length+1+(h.length+n.length)+1+1+1+2+1+h.length+n.length, String([n.length, h.length, tw.length])]);
eq('replaceAll', [tw.replaceAll(n, 'x').length, tw.replaceAll(n, (m, at) => at).slice(h.length, h.length + 5)], [2*h.length+2, String(h.length)]);
eq('short', ['a-b-c'.split('-'), 'a-b-c'.split('-', 2), 'abc'.split(''), 'abc'.split(), 'a1b2'.split(/\d/), 'aXbX'.replace('X', '$&$&'), 'aXbX'.replaceAll('X', '$$'), 'aXbX'.replace(/x/gi, 'y'), 'aXbX'.replaceAll(/x/gi, 'y'), 'null'.replace(null, 1), '12'.indexOf(2), 'undefined'.includes(), 'abc'.lastIndexOf('c', -5), 'canal'.lastIndexOf('a', 2), 'abc'.lastIndexOf('', NaN)], [['a','b','c'],['a','b'],['a','b','c'],['abc'],['a','b',''],'aXXbX','a$b$','ayby','ayby','1',1,true,-1,1,3]);
thr('ra', () => 'a'.replaceAll(/a/, ''), 'TypeError'); thr('inc', () => 'a'.includes(/a/), 'TypeError');
for (const m of ['includes','indexOf','lastIndexOf','replace','replaceAll','split','normalize','localeCompare']) { thr(m+' null', () => String.prototype[m].call(null, 'a'), 'TypeError'); thr(m+' sym', () => String.prototype[m].call(Symbol(), 'a'), 'TypeError'); }
thr('symarg', () => 'a'.indexOf(Symbol()), 'TypeError'); thr('form', () => 'a'.normalize('x'), 'RangeError'); thr('formlong', () => 'a'.repeat(9999).normalize('x'), 'RangeError');
eq('obj', [String.prototype.indexOf.call(12345, {toString: () => '34'}), new String('abc').split(new String('b')), 'abc'.split({[Symbol.split]: (s, l) => [s, l]}, 7), 'abc'.replace({[Symbol.replace]: (s, r) => s + r}, '!')], [2, ['a','c'], ['abc', 7], 'abc!']);
eq('flat', [[1,[2,[3,[4]]]].flat(), [1,[2,[3,[4]]]].flat(Infinity), [1,,[2,,3]].flat(), [[1]].flat(0), [1,2].flatMap(x => [x, [x]]), [[]].flat(-1), [1,[2]].flat('1')], [[1,2,[3,[4]]],[1,2,3,4],[1,2,3],[[1]],[1,[1],2,[2]],[[]],[1,2]]);
class A extends Array {} eq('species', [A.of([1]).flat() instanceof A, A.of(1).flatMap(x => x) instanceof A, [].flat.call({length: 1, 0: [5]})], [true, true, [5]]);
thr('fm', () => [1].flatMap(1), 'TypeError'); thr('flatnull', () => [].flat.call(null), 'TypeError');
const L = 'x'.repeat(2000), M = L.slice(1) + 'y';
eq('arr', [[L,M].indexOf('x'.repeat(2000)), [L,M,L].lastIndexOf(L), [L,M].includes(M), [L,M].indexOf(M, -1), [L].indexOf(L, 1), [L,M,L].lastIndexOf(L, 1), [L,M,L].lastIndexOf(L, -2), [L, M].lastIndexOf(L, undefined), [].includes(L), [L].includes(L, 5), [L,M].lastIndexOf(M, undefined)], [0,2,true,1,-1,0,0,0,false,false,-1]);
eq('sort', [[M,L,'b',undefined,'a',3].sort().map(s => s && String(s).slice(-1)), [3,20,100].sort(), [{toString:()=>'b'},'a'].sort().length, ['b','a'].toSorted(), [3,1,2].sort((a,b)=>b-a)], [['3','a','b','x','y',undefined],[100,20,3],2,['a','b'],[3,2,1]]);
thr('sortcmp', () => [1].sort(1), 'TypeError');
eq('raw', [String.raw`a${1}\n${2}`, String.raw({raw: 'abc'}, 1, 2, 3), String.raw({raw: []})], ['a1\\n2', 'a1b2c', '']);
thr('rawnull', () => String.raw(), 'TypeError');
eq('concat', [[1].concat([2], 3, [[4]]), [].concat('ab')], [[1,2,3,[4]], ['ab']]);
const chars = ['a','e\u0301','\u00e9','\u1e9b\u0323','\uac01','\u1100\u1161\u11a8','\u1100','\u1161','\u11a8','\uff76\uff9e','\u0323\u0307','\u{1d15e}','\u{11099}\u{110ba}','\u09c7\u09be','\ud83d\ude00','\ufb01','\ud800','\u3099','\u304b','\u{16d67}\u{16d67}','\u0627\u0653','\u0915\u093c'];
let seed = 7; const rnd = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
for (let t = 0; t < 6; t++) for (const f of ['NFC','NFD','NFKC','NFKD']) {
  let s = ''; while (s.length < 9000) s += chars[rnd(chars.length)];
  // pieces cut after newlines are normalised natively: the reference
  let ref = '', text = ''; let part = '';
  while (text.length < 9000) { part = '\n'; while (part.length < 500) part += chars[rnd(chars.length)]; text += part; ref += part.normalize(f); }
  if (text.normalize(f) !== ref) bad.push('normalize ' + f + t);
  if (s.normalize(f).length === 0) bad.push('x');
  if (s.normalize(f).normalize(f) !== s.normalize(f)) bad.push('idem ' + f);
}
eq('lc', ['a'.localeCompare('b'), 'b'.localeCompare('a'), 'a'.localeCompare('a'), ('e\u0301'.repeat(4000)).localeCompare('\u00e9'.repeat(4000)), 'a'.localeCompare(), ('a'.repeat(9000)+'b').localeCompare('a'.repeat(9000)+'c')], [-1,1,0,0,-1,-1]);
bad
