import type { Readable } from "node:stream";

const MAX_CHARACTERS = 2_000;

/** Returns a function that returns the end of what a child process has written, such as the reason why it failed. */
export function tailOf(output: Readable): () => string {
  let tail = "";
  output.on("data", (bytes: Buffer) => {
    tail = (tail + bytes.toString()).slice(-MAX_CHARACTERS);
  });
  return () => tail.trim();
}
