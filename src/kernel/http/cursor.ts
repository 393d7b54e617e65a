import { ApiError } from "../../protocol/errors.ts";

/**
 * Where a page ended. Opaque to callers; `list` identifies the list, so that a cursor of one cannot be used in another. A cursor
 * has at most 256 characters: times and UUIDs fit, ids of users (128 characters of up to four bytes) do not.
 */
export type Position = [string | number, ...(string | number)[]];

export function encodeCursor(list: string, position: Position): string {
  return Buffer.from(JSON.stringify([list, ...position])).toString("base64url");
}

/** `like` is any position of the list. */
export function decodeCursor<P extends Position>(list: string, cursor: string, like: P): P {
  try {
    if (!/^[A-Za-z0-9_-]{1,256}$/.test(cursor)) throw new Error("alphabet");
    const [name, ...position] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as unknown[];
    const fits = position.length === like.length && like.every((part, i) => typeof position[i] === typeof part);
    if (name !== list || !fits) throw new Error("shape");
    return position as P;
  } catch {
    throw new ApiError("SVC_INVALID_CURSOR");
  }
}
