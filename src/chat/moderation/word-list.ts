/** Words that a project does not want said: refused, masked, or reported to the moderators. */
export type WordList = { refuse: string[]; mask: string[]; report: string[] };

export const EMPTY_LIST: WordList = { refuse: [], mask: [], report: [] };

type Action = keyof WordList;
type Entry = { words: string[]; action: Action };

/** Entries by their first word, so that a text is gone through once, however long the list is. */
export type CompiledList = Map<string, Entry[]>;

export type Screened = { text: string; refused: boolean; isReported: boolean };

const WORD = /[\p{L}\p{M}\p{N}_]+/gu;

/** Case, width and compatibility forms do not hide a word. */
function folded(word: string): string {
  return word.normalize("NFKC").toLowerCase();
}

function wordsIn(text: string): { word: string; start: number; end: number }[] {
  return [...text.matchAll(WORD)].map(({ 0: word, index }) => ({
    ...{ word: folded(word), start: index, end: index + word.length },
  }));
}

/** Null for a list that can match nothing. */
export function compileList(list: WordList): CompiledList | null {
  const compiled: CompiledList = new Map();
  for (const action of ["refuse", "mask", "report"] as const) {
    for (const phrase of list[action]) {
      const words = wordsIn(phrase).map(({ word }) => word);
      const [first] = words;
      if (first !== undefined) compiled.set(first, [...(compiled.get(first) ?? []), { words, action }]);
    }
  }
  return compiled.size === 0 ? null : compiled;
}

/** Whole words and phrases only: nobody is refused for a part of a harmless word. */
export function screen(list: CompiledList, text: string): Screened {
  const found = wordsIn(text);
  let masked = "";
  let from = 0;
  let isReported = false;
  for (const [at, { word, start }] of found.entries()) {
    for (const { words, action } of list.get(word) ?? []) {
      const last = found[at + words.length - 1];
      if (!last || !words.every((expected, step) => found[at + step]?.word === expected)) continue;
      if (action === "refuse") return { text, refused: true, isReported };
      if (action === "report") isReported = true;
      else if (last.end > from) {
        const begin = Math.max(from, start);
        masked += text.slice(from, begin) + starred(text.slice(begin, last.end));
        from = last.end;
      }
    }
  }
  return { text: masked + text.slice(from), refused: false, isReported };
}

/** As many stars as letters; what stands between the words of a phrase stays. */
function starred(text: string): string {
  return text.replace(WORD, (word) => "*".repeat([...word].length));
}
