import type { Pieces } from "../../kernel/pieces.ts";

/** Scripts written without spaces, and symbols such as emoji: each character is a word of its own. */
const WORD_BY_ITSELF =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{So}]/gu;
const WORDS = /[\p{L}\p{N}\p{M}\p{So}]+/gu;
const ENDS_IN_A_WORD = /[\p{L}\p{N}\p{M}\p{So}]$/u;
/** Accents, and the mark that chooses an emoji's colour picture. */
const ACCENTS = /[\u0300-\u036f\ufe00-\ufe0f]/g;
/** Shorter beginnings would match too much of a language. */
const MIN_PREFIX_LENGTH = 3;
const MAX_WORDS = 32;
/** Of one message. As many as a long one has in a script without spaces; U+FDFA alone stands for four. */
const MAX_INDEXED_WORDS = 4096;
/**
 * The longest text and file name in Hangul, whose syllables are three characters once they are spelled out. Others are
 * eighteen: what is beyond is not looked at.
 */
const MAX_FOLDED_LENGTH = 12_800;

/** Of a text: what is spelled out and looked at without a pause. */
const PIECE_LENGTH = 256;
/**
 * Characters that may become one with the character before them: accents, and the letters of which Hangul syllables are
 * made. Before all others a text can be cut and means the same.
 */
const JOINS_THE_ONE_BEFORE = /^[\p{M}\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\ud7b0-\ud7fb\uff9e\uff9f\uffa0-\uffdc]/u;
const isSecondHalf = (code: number) => code >= 0xdc00 && code <= 0xdfff;

/** Words as they are compared: lower case, no accents, one spelling per character. */
function* wordsInPieces(text: string): Pieces<string[]> {
  const lower = text.toLowerCase();
  const words: string[] = [];
  /** What the piece before ended with: the word may go on. */
  let open = "";
  let toLookAt = MAX_FOLDED_LENGTH;
  for (let from = 0; from < lower.length && toLookAt > 0 && words.length < MAX_INDEXED_WORDS; ) {
    const end = endOfPiece(lower, from);
    const spelledOut = lower.slice(from, end).normalize("NFKD").slice(0, toLookAt);
    toLookAt -= spelledOut.length;
    from = end;
    const spaced = spelledOut.replace(ACCENTS, "").normalize("NFKC").replace(WORD_BY_ITSELF, " $& ");
    if (spaced === "") continue;
    const [first = "", ...others] = spaced.match(WORDS) ?? [];
    const goesOn = first !== "" && spaced.startsWith(first);
    const found = goesOn ? [open + first, ...others] : [open, first, ...others];
    open = found.length > 0 && ENDS_IN_A_WORD.test(spaced) ? (found.pop() ?? "") : "";
    for (const word of found) if (word !== "") words.push(word);
    yield;
  }
  if (open !== "") words.push(open);
  return words;
}

/** Where a piece that begins at `from` can be cut; what only joins on and on is no word, and is cut anywhere. */
function endOfPiece(text: string, from: number): number {
  let end = from + PIECE_LENGTH;
  while (end < Math.min(text.length, from + 2 * PIECE_LENGTH)) {
    if (!isSecondHalf(text.charCodeAt(end)) && !JOINS_THE_ONE_BEFORE.test(text.slice(end, end + 2))) break;
    end++;
  }
  return isSecondHalf(text.charCodeAt(end)) ? end + 1 : end;
}

/** Most texts are short, and many have nothing to be spelled out: pieces would cost half as much again. */
const PLAIN = /^[\n\r\t\x20-\x7e]*$/;
const PLAIN_WORDS = /[a-z0-9]+/g;

const wordsOf = (text: string): string[] =>
  text.length <= PIECE_LENGTH && PLAIN.test(text)
    ? (text.toLowerCase().match(PLAIN_WORDS) ?? [])
    : atOnce(wordsInPieces(text));

function atOnce<Result>(work: Pieces<Result>): Result {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/**
 * Every word carries its conversation, so that neither a common word nor the beginning of one ever leads through the
 * messages of others. The end of a UUIDv7 is random; should two be alike, the search compares the whole id as well.
 */
function scoped(conversationId: string, words: string[]): string {
  const scope = conversationId.slice(-12);
  return words.map((word) => scope + word).join(" ");
}

/** A text as the index keeps it, and how much that is; no words are an empty text. */
export type Indexed = { text: string; words: number };

export function* indexedInPieces(conversationId: string, text: string): Pieces<Indexed> {
  return indexedAs(conversationId, yield* wordsInPieces(text));
}

export const indexed = (conversationId: string, text: string): Indexed => indexedAs(conversationId, wordsOf(text));

function indexedAs(conversationId: string, words: string[]): Indexed {
  const kept = words.slice(0, MAX_INDEXED_WORDS);
  return { text: scoped(conversationId, kept), words: kept.length };
}

/**
 * What a person typed as an FTS5 expression: every word must occur, the last one may go on. Words are letters, digits
 * and symbols only, and quoted: no operator, column or bracket means anything. Null when it holds no word at all.
 */
export function matchOf(conversationId: string, typed: string): string | null {
  // What is written together, as in `re-send` or 会議, has to stand together.
  const phrases = typed
    .split(/\s+/u)
    .map(wordsOf)
    .filter((words) => words.length > 0)
    .slice(0, MAX_WORDS);
  if (phrases.length === 0) return null;
  const last = phrases.at(-1)?.at(-1) ?? "";
  const match = phrases.map((words) => `"${scoped(conversationId, words)}"`).join(" AND ");
  return [...last].length >= MIN_PREFIX_LENGTH ? `${match} *` : match;
}
