// The editor. It lives in a shadow root: there its styles are adopted sheets, which the page's policy allows.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { setDiagnostics } from '@codemirror/lint';
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Declaration } from 'scomp-client';

import { completions } from './completion.js';
import { charsOf } from './position.js';
import type { Position } from './position.js';

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--text-quiet)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.className], color: 'var(--code-type)' },
  { tag: tags.function(tags.variableName), color: 'var(--code-function)' },
]);

const look = EditorView.theme({
  '&': { height: '100%', fontSize: '14px', color: 'var(--text)', backgroundColor: 'var(--surface)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-quiet)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--active-line)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--selection)',
  },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    boxShadow: 'var(--shadow)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionInfo': { padding: '6px 10px', maxWidth: '360px', fontSize: '13px' },
  '.cm-completionInfo code': { fontFamily: 'var(--mono)', overflowWrap: 'anywhere' },
  '.cm-completionDetail': { fontStyle: 'normal', opacity: '.7' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    borderBottom: '2px solid var(--bad)',
    backgroundColor: 'var(--bad-soft)',
  },
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--bad)' },
});

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  declarations: () => Declaration[];
  onRun: () => void;
  onCancel: () => boolean;
  onChange: (text: string) => void;
}

export class Editor {
  private readonly view: EditorView;

  constructor({ parent, text, declarations, onRun, onCancel, onChange }: EditorOptions) {
    const root = parent.attachShadow({ mode: 'open' });
    const host = document.createElement('div');
    host.style.height = '100%';
    root.append(host);
    const keys = Prec.highest(
      keymap.of([
        { key: 'Mod-Enter', run: (view) => (closeCompletion(view), onRun(), true) },
        { key: 'Mod-.', run: onCancel },
      ]),
    );
    const state = EditorState.create({
      doc: text,
      extensions: [
        keys,
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        // Tab moves on to the next control: the page is used with the keyboard too.
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        javascript({ typescript: true }),
        autocompletion({ override: completions(declarations), icons: false }),
        syntaxHighlighting(colours),
        look,
        EditorView.contentAttributes.of({ 'aria-label': 'Code to run' }),
        EditorView.updateListener.of((update) => update.docChanged && onChange(update.state.doc.toString())),
      ],
    });
    this.view = new EditorView({ state, parent: host, root });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  focus(): void {
    this.view.focus();
  }

  /** Puts text where the cursor is. */
  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.focus();
  }

  /** Marks the place of an error and goes there. */
  mark({ line, column }: Position, message: string): void {
    const { doc } = this.view.state;
    if (line < 1 || line > doc.lines) return;
    const place = doc.line(line);
    const from = place.from + Math.min(charsOf(place.text, column - 1), place.length);
    const to = this.view.state.wordAt(from)?.to ?? Math.min(from + 1, place.to);
    this.view.dispatch(setDiagnostics(this.view.state, [{ from, to, severity: 'error', message }]));
    this.view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
  }

  clearMarks(): void {
    this.view.dispatch(setDiagnostics(this.view.state, []));
  }
}
