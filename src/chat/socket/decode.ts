import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { parseJson } from "../../kernel/json.ts";
import { type ChatClientFrame, ChatClientFrames, type ChatClientFrameType } from "../../protocol/chat.ts";

type Decoded =
  | { ok: true; frame: ChatClientFrame }
  /** Malformed is what is no frame at all; three of them close the connection. */
  | {
      ok: false;
      malformed: boolean;
      code: "INVALID_MESSAGE" | "UNKNOWN_TYPE" | "VALIDATION_FAILED";
      id?: string;
      message: string;
    };

export type Decode = (text: string) => Decoded;

/** Reads frames against the schemas, compiled once. What a client sends is data: never code, never a property name of ours. */
export function createDecode(): Decode {
  const checks = new Map<string, TypeCheck<(typeof ChatClientFrames)[ChatClientFrameType]>>(
    Object.entries(ChatClientFrames).map(([type, schema]) => [type, TypeCompiler.Compile(schema)]),
  );

  return (text) => {
    const value = parsed(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return malformed("A frame is one JSON object.");
    }
    const { type, id } = value as { type?: unknown; id?: unknown };
    if (typeof type !== "string") return malformed("A frame has a string `type`.");
    const known = typeof id === "string" && id.length <= 64 ? { id } : {};
    const check = checks.get(type);
    if (!check)
      return { ok: false, malformed: false, code: "UNKNOWN_TYPE", message: "Unknown type of frame.", ...known };
    if (check.Check(value)) return { ok: true, frame: value as ChatClientFrame };
    const problem = check.Errors(value).First();
    const field = problem?.path.replace(/^\//, "").replaceAll("/", ".") ?? "frame";
    return {
      ok: false,
      malformed: false,
      code: "VALIDATION_FAILED",
      message: `${field}: ${problem?.message ?? "is not valid"}`,
      ...known,
    };
  };
}

export function malformed(message: string): Decoded & { ok: false } {
  return { ok: false, malformed: true, code: "INVALID_MESSAGE", message };
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}
