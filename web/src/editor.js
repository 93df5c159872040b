// The editors: JSON for events, and the rule language with highlighting and completion.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { linter, setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";

const nonce = document.querySelector("meta[name=csp-nonce]").content;

const KEYWORDS = new Set(
  ("AND OR NOT IN BETWEEN LIKE ILIKE RLIKE ESCAPE IS NULL TRUE FALSE TIMESTAMP DATE INTERVAL EXISTS ANY ALL " +
    "SELECT FROM WHERE COUNT DISTINCT SUM MIN MAX AVG").split(" "),
);

const ruleLanguage = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
    if (stream.match(/^(?:"[^"]*"?|`[^`]*`?)/)) return "propertyName";
    if (stream.match(/^\d+(?:\.\d*)?(?:e[+-]?\d+)?/i)) return "number";
    const word = stream.match(/^[A-Za-z_][\w.]*/);
    if (word) {
      if (KEYWORDS.has(word[0].toUpperCase())) return "keyword";
      return stream.peek() === "(" ? "function" : "propertyName";
    }
    stream.next();
    return "operator";
  },
  languageData: { closeBrackets: { brackets: ["(", "'"] } },
  tokenTable: { function: tags.function(tags.variableName), propertyName: tags.propertyName },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--number)" },
  { tag: [tags.propertyName, tags.variableName], color: "var(--name)" },
  { tag: tags.function(tags.variableName), color: "var(--function)" },
  { tag: tags.operator, color: "var(--quiet)" },
]);

const look = EditorView.theme({
  "&": { backgroundColor: "var(--field)", color: "var(--text)", fontSize: "0.9rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", minHeight: "6rem" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection": {
    backgroundColor: "var(--selection) !important",
  },
  ".cm-tooltip": { backgroundColor: "var(--field)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-placeholder": { color: "var(--quiet)" },
  ".cm-unread": { opacity: "0.55", textDecoration: "underline dotted" },
});

const basic = [
  EditorView.cspNonce.of(nonce),
  history(),
  bracketMatching(),
  closeBrackets(),
  EditorView.lineWrapping,
  // Ctrl+Enter saves; the editor would add a line.
  keymap.of([{ key: "Mod-Enter", run: () => true }, ...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
  syntaxHighlighting(colours),
  look,
];

// Attributes of the event that no rule reads are dimmed.
const setMarks = StateEffect.define();
const marks = StateField.define({
  create: () => RangeSet.empty,
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return effect.value;
    return value.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

function findUnread(text, isRead) {
  const found = [];
  const unread = Decoration.mark({ class: "cm-unread", attributes: { title: "No rule reads this" } });
  const names = /"((?:[^"\\]|\\.)*)"\s*:/g;
  for (let match; (match = names.exec(text)) !== null && found.length < 5000; ) {
    if (!isRead(match[1])) found.push(unread.range(match.index, match.index + match[1].length + 2));
  }
  return Decoration.set(found);
}

function useEditor({ value, onChange, label, extensions }) {
  const place = useRef(null);
  const editor = useRef(null);
  const change = useRef(onChange);
  // What was typed and has not come back as `value` yet: a page that lags behind must not undo it.
  const typed = useRef(new Set());
  change.current = onChange;
  useEffect(() => {
    const watch = EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      const text = update.state.doc.toString();
      typed.current.add(text);
      change.current(text);
    });
    const labelled = EditorView.contentAttributes.of({ "aria-label": label });
    editor.current = new EditorView({
      state: EditorState.create({ doc: value, extensions: [...basic, ...extensions, watch, labelled] }),
      parent: place.current,
    });
    return () => editor.current.destroy();
  }, []);
  useEffect(() => {
    const { state } = editor.current;
    if (state.doc.toString() === value) typed.current = new Set();
    else if (!typed.current.has(value)) {
      editor.current.dispatch({ changes: { from: 0, to: state.doc.length, insert: value } });
    }
  }, [value]);
  return [place, editor];
}

export function EventEditor({ value, onChange, isRead }) {
  const [place, editor] = useEditor({
    value,
    onChange,
    label: "Event as JSON",
    extensions: [json(), linter(jsonParseLinter(), { delay: 400 }), marks],
  });
  useEffect(() => {
    if (isRead) editor.current.dispatch({ effects: setMarks.of(findUnread(value, isRead)) });
  }, [value, isRead]);
  return html`<div class="editor" ref=${place}></div>`;
}

export function RuleEditor({ value, onChange, complete, problem }) {
  const source = useRef(complete);
  source.current = complete;
  const [place, editor] = useEditor({
    value,
    onChange,
    label: "Rule",
    extensions: [
      ruleLanguage,
      placeholder("age >= 18 AND country IN ('FR', 'BE')"),
      autocompletion({ override: [(context) => source.current(context)] }),
    ],
  });
  useEffect(() => {
    const { state } = editor.current;
    const at = problem?.position;
    const found =
      at == null
        ? []
        : [
            {
              from: Math.min(at, state.doc.length),
              to: Math.min(at + 1, state.doc.length),
              severity: "error",
              message: problem.detail ?? "",
            },
          ];
    editor.current.dispatch(setDiagnostics(state, found));
  }, [problem, value]);
  return html`<div class="editor" ref=${place}></div>`;
}
