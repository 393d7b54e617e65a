/** Scripts written without spaces, and symbols such as emoji: each character is a word of its own. */
const WORD_BY_ITSELF =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{So}]/gu;
/** What the index makes words of; everything else separates them. */
const HAS_WORD = /[\p{L}\p{N}\p{So}]/u;
const MAX_WORDS = 32;

/** A text as the index reads it. */
export function indexed(text: string): string {
  return text.replace(WORD_BY_ITSELF, " $& ");
}

/** A conversation as one word. */
export function scopeOf(conversationId: string): string {
  return conversationId.replaceAll("-", "");
}

/**
 * What a person typed as an FTS5 expression: every word must occur, the last one may go on. Each is quoted, so that no
 * operator, column or bracket in it means anything. Null when it holds no word at all.
 */
export function matchOf(conversationId: string, typed: string): string | null {
  const words = typed
    .toWellFormed()
    .split(/\s+/u)
    .filter((word) => HAS_WORD.test(word))
    .slice(0, MAX_WORDS)
    .map((word) => `"${indexed(word).replaceAll('"', " ").replaceAll("\0", " ")}"`);
  if (words.length === 0) return null;
  return `scope : "${scopeOf(conversationId)}" AND text : (${words.join(" AND ")} *)`;
}
