/** Words that a project does not want said: refused, masked, or reported to the moderators. */
export type WordList = { refuse: string[]; mask: string[]; report: string[] };

export const EMPTY_LIST: WordList = { refuse: [], mask: [], report: [] };

type Action = keyof WordList;

/**
 * What listed phrases begin with, word by word. However many begin alike, a text is gone through once, with no more steps
 * at each word than the longest phrase has.
 */
export type CompiledList = { next: Map<string, CompiledList>; actions: Set<Action> };

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

const emptyNode = (): CompiledList => ({ next: new Map(), actions: new Set() });

/** Null for a list that can match nothing. */
export function compileList(list: WordList): CompiledList | null {
  const root = emptyNode();
  for (const action of ["refuse", "mask", "report"] as const) {
    for (const phrase of list[action]) {
      let node = root;
      for (const { word } of wordsIn(phrase)) {
        const following = node.next.get(word) ?? emptyNode();
        node.next.set(word, following);
        node = following;
      }
      if (node !== root) node.actions.add(action);
    }
  }
  return root.next.size === 0 ? null : root;
}

/** Whole words and phrases only: nobody is refused for a part of a harmless word. */
export function screen(list: CompiledList, text: string): Screened {
  const found = wordsIn(text);
  let masked = "";
  let from = 0;
  let isReported = false;
  for (const [at, { word, start }] of found.entries()) {
    let node = list.next.get(word);
    for (let last = at; node; node = node.next.get(found[++last]?.word ?? "")) {
      const { actions } = node;
      const end = found[last]?.end ?? start;
      if (actions.has("refuse")) return { text, refused: true, isReported };
      if (actions.has("report")) isReported = true;
      if (!actions.has("mask") || end <= from) continue;
      const begin = Math.max(from, start);
      masked += text.slice(from, begin) + starred(text.slice(begin, end));
      from = end;
    }
  }
  return { text: masked + text.slice(from), refused: false, isReported };
}

/** As many stars as letters; what stands between the words of a phrase stays. */
function starred(text: string): string {
  return text.replace(WORD, (word) => "*".repeat([...word].length));
}
