/** Words of messages that are refused, masked, or reported to the moderators. */
export type WordList = { refuse: string[]; mask: string[]; report: string[] };

export const EMPTY_LIST: WordList = { refuse: [], mask: [], report: [] };

/**
 * A node of a trie of words. A text is read once, and each of its words takes no more steps than the longest phrase has
 * words, regardless of how many phrases share a prefix.
 */
export type CompiledList = { next: Map<string, CompiledList>; actions: Set<keyof WordList> };

type Screened = { text: string; refused: boolean; isReported: boolean };

const WORD = /[\p{L}\p{M}\p{N}_]+/gu;

/** A word is matched in any case, width or compatibility form. */
function normalized(word: string): string {
  return word.normalize("NFKC").toLowerCase();
}

function wordsIn(text: string): { word: string; start: number; end: number }[] {
  return [...text.matchAll(WORD)].map(({ 0: word, index }) => ({
    word: normalized(word),
    start: index,
    end: index + word.length,
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

/** Matches whole words and phrases only, so that a part of a harmless word never matches. */
export function screen(list: CompiledList, text: string): Screened {
  const found = wordsIn(text);
  let output = "";
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
      output += text.slice(from, begin) + masked(text.slice(begin, end));
      from = end;
    }
  }
  return { text: output + text.slice(from), refused: false, isReported };
}

/** One asterisk for each letter; the characters between the words of a phrase stay. */
function masked(text: string): string {
  return text.replace(WORD, (word) => "*".repeat([...word].length));
}
