import type { CooperativeTask } from "../../../kernel/scheduling/cooperative-task.ts";

/** In scripts without spaces and for symbols such as emoji, each character is a word. */
const SINGLE_CHARACTER_WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{So}]/gu;
const WORDS = /[\p{L}\p{N}\p{M}\p{So}]+/gu;
const ENDS_IN_A_WORD = /[\p{L}\p{N}\p{M}\p{So}]$/u;
/** Accents and the variation selectors of emoji. */
const ACCENTS = /[\u0300-\u036f\ufe00-\ufe0f]/g;
/** Shorter prefixes would match too many words of a language. */
const MIN_PREFIX_LENGTH = 3;
const MAX_QUERY_WORDS = 32;
/**
 * The limit per message. A long message in a script without spaces has this many words; U+FDFA alone becomes four
 * words.
 */
const MAX_INDEXED_WORDS = 4096;
/**
 * The length of the longest text and file name in Hangul, whose syllables become three characters each. Some characters
 * become eighteen; text beyond this length is not indexed.
 */
const MAX_DECOMPOSED_LENGTH = 12_800;

/** The characters of a text that are processed between two yields. */
const CHUNK_LENGTH = 256;
/**
 * Characters that may combine with the character before them: accents, and the letters that make up Hangul
 * syllables. Before any other character a text can be cut without changing its words.
 */
const COMBINES_WITH_PREVIOUS = /^[\p{M}\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\ud7b0-\ud7fb\uff9e\uff9f\uffa0-\uffdc]/u;
const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff;

/** Words as they are compared: lower case, without accents, in one spelling. */
function* splitTask(text: string): CooperativeTask<string[]> {
  const lower = text.toLowerCase();
  const words: string[] = [];
  /** The last word of the previous chunk, which may continue. */
  let open = "";
  let remaining = MAX_DECOMPOSED_LENGTH;
  for (let from = 0; from < lower.length && remaining > 0 && words.length < MAX_INDEXED_WORDS; ) {
    const end = endOfChunk(lower, from);
    const decomposed = lower.slice(from, end).normalize("NFKD").slice(0, remaining);
    remaining -= decomposed.length;
    from = end;
    const spaced = decomposed.replace(ACCENTS, "").normalize("NFKC").replace(SINGLE_CHARACTER_WORD, " $& ");
    if (spaced === "") continue;
    const [first = "", ...others] = spaced.match(WORDS) ?? [];
    const continues = first !== "" && spaced.startsWith(first);
    const found = continues ? [open + first, ...others] : [open, first, ...others];
    open = found.length > 0 && ENDS_IN_A_WORD.test(spaced) ? (found.pop() ?? "") : "";
    for (const word of found) if (word !== "") words.push(word);
    yield;
  }
  if (open !== "") words.push(open);
  return words;
}

/** A chunk ends where no character combines with the previous one, and after twice its length in any case. */
function endOfChunk(text: string, from: number): number {
  let end = from + CHUNK_LENGTH;
  while (end < Math.min(text.length, from + 2 * CHUNK_LENGTH)) {
    if (!isLowSurrogate(text.charCodeAt(end)) && !COMBINES_WITH_PREVIOUS.test(text.slice(end, end + 2))) break;
    end++;
  }
  return isLowSurrogate(text.charCodeAt(end)) ? end + 1 : end;
}

/** Most texts are short, and many are ASCII: without this shortcut, splitting takes half as long again. */
const PLAIN = /^[\n\r\t\x20-\x7e]*$/;
const PLAIN_WORDS = /[a-z0-9]+/g;

const wordsOf = (text: string): string[] =>
  text.length <= CHUNK_LENGTH && PLAIN.test(text)
    ? (text.toLowerCase().match(PLAIN_WORDS) ?? [])
    : runAtOnce(splitTask(text));

function runAtOnce<Result>(task: CooperativeTask<Result>): Result {
  for (;;) {
    const { done, value } = task.next();
    if (done) return value;
  }
}

/**
 * Every indexed word begins with its conversation, so that a search for a common word or prefix never reads the
 * messages of others. The end of a UUIDv7 is random; in case two ids end alike, the search also compares the whole id.
 */
function scoped(conversationId: string, words: string[]): string {
  const scope = conversationId.slice(-12);
  return words.map((word) => scope + word).join(" ");
}

/** The text of a message in the form that the index stores, and the number of its words. */
export type IndexEntry = { text: string; words: number };

export function* indexEntryTask(conversationId: string, text: string): CooperativeTask<IndexEntry> {
  return entryOf(conversationId, yield* splitTask(text));
}

export const indexEntry = (conversationId: string, text: string): IndexEntry => entryOf(conversationId, wordsOf(text));

function entryOf(conversationId: string, words: string[]): IndexEntry {
  const kept = words.slice(0, MAX_INDEXED_WORDS);
  return { text: scoped(conversationId, kept), words: kept.length };
}

/**
 * A search query as an FTS5 expression: every word must occur, and the last one may be a prefix. Words consist of
 * letters, digits and symbols and are quoted, so that a query cannot contain operators. Null without any word.
 */
export function matchExpression(conversationId: string, query: string): string | null {
  // Words without a space between them, as in `re-send` or 会議, form a phrase.
  const phrases = query
    .split(/\s+/u)
    .map(wordsOf)
    .filter((words) => words.length > 0)
    .slice(0, MAX_QUERY_WORDS);
  if (phrases.length === 0) return null;
  const last = phrases.at(-1)?.at(-1) ?? "";
  const match = phrases.map((words) => `"${scoped(conversationId, words)}"`).join(" AND ");
  return [...last].length >= MIN_PREFIX_LENGTH ? `${match} *` : match;
}
