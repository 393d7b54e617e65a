/** Controls (C0, DEL, C1), line separators and characters that change the direction of the text around them. */
const UNPRINTABLE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * Escapes characters that could start a new line, move the terminal's cursor or change how the surrounding text is
 * shown.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/** Does the same for text with its own line breaks and tabs. Escapes in JSON stay valid. */
export function printableLines(text: string): string {
  return text.replace(UNPRINTABLE, (character) =>
    character === "\n" || character === "\t" ? character : escaped(character),
  );
}

const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(character: string): string {
  return SHORT[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
