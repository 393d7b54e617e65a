/** Scripts written without spaces, and symbols such as emoji: each character is a word of its own. */
const WORD_BY_ITSELF =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{So}]/gu;
const WORDS = /[\p{L}\p{N}\p{M}\p{So}]+/gu;
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

/** Words as they are compared: lower case, no accents, one spelling per character. */
function wordsOf(text: string): string[] {
  const spelledOut = text.toLowerCase().normalize("NFKD").slice(0, MAX_FOLDED_LENGTH);
  const folded = spelledOut.replace(ACCENTS, "").normalize("NFKC").slice(0, MAX_FOLDED_LENGTH);
  return folded.replace(WORD_BY_ITSELF, " $& ").match(WORDS) ?? [];
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
export function indexed(conversationId: string, text: string): { text: string; words: number } {
  const words = wordsOf(text).slice(0, MAX_INDEXED_WORDS);
  return { text: scoped(conversationId, words), words: words.length };
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
