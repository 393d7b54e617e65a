/*
 * What an edge or the leader says within one turn goes out as one, so that the other takes it within one turn as well:
 * the leader commits it together, and the edge writes once to a socket for which there are several broadcasts.
 */

const LETTER = "m";
/** What is larger goes alone, and as it is. Far below what the network takes at once, and soon read. */
const MOST_CHARACTERS = 64 * 1024;

/** Said first by a leader that takes and gives bundles; an edge asks for them in its address. */
export const GREETING = LETTER;
export const BUNDLES_QUERY = "bundles";

/** As many of the frames from there on as fit into one, and where the next one begins. */
export function bundled(frames: readonly string[], from: number): { text: string; next: number } {
  let text = LETTER;
  let next = from;
  for (; next < frames.length; next++) {
    const frame = frames[next] ?? "";
    if (next > from && text.length + frame.length > MOST_CHARACTERS) break;
    text += `${frame.length} ${frame}`;
  }
  return next === from + 1 ? { text: frames[from] ?? "", next } : { text, next };
}

export function isBundle(text: string): boolean {
  return text.startsWith(LETTER);
}

/** The frames of a bundle; of what is none, itself. */
export function unbundled(text: string): string[] {
  if (!isBundle(text)) return [text];
  const frames: string[] = [];
  for (let at = LETTER.length; at < text.length; ) {
    const start = text.indexOf(" ", at) + 1;
    const end = start + Number(text.slice(at, start - 1));
    // Not a number, or less than none: whoever holds the secret must not be able to send this round for ever.
    if (start === 0 || !(end >= start && end <= text.length)) throw new Error("a bundle that ends in the middle");
    frames.push(text.slice(start, end));
    at = end;
  }
  return frames;
}
