import { ApiError } from "../../protocol/errors.ts";

/**
 * Where a page ended. Opaque to callers; `list` identifies the list, so that a cursor of one cannot be used in another.
 */
export type Position = (string | number)[];

export function encodeCursor(list: string, position: Position): string {
  return Buffer.from(JSON.stringify([list, ...position])).toString("base64url");
}

export function decodeCursor(list: string, cursor: string, shape: ("string" | "number")[]): Position {
  try {
    if (!/^[A-Za-z0-9_-]{1,256}$/.test(cursor)) throw new Error("alphabet");
    const [name, ...position] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as unknown[];
    const fits =
      name === list && position.length === shape.length && shape.every((type, i) => typeof position[i] === type);
    if (!fits) throw new Error("shape");
    return position as Position;
  } catch {
    throw new ApiError("SVC_INVALID_CURSOR");
  }
}
