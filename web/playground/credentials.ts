import type { NetworkProfile, PlaygroundCredentials, PlaygroundMode } from "../../src/protocol/playground.ts";
import type { EncryptionOptions } from "../sdk/index.ts";

/** The credentials of a session. Under `stoa serve` they come from your backend and may cover only a room. */
export type Credentials = Pick<PlaygroundCredentials, "mode" | "identity"> & {
  /** Encrypts the call end to end. A passphrase stays on this page. */
  encryption?: EncryptionOptions;
  rtc: { endpoint: string; token: string; roomId?: string };
} & Partial<Pick<PlaygroundCredentials, "chat" | "conversationId" | "streamId" | "streamStatus">>;

async function call<T>(path: string, body?: object): Promise<T> {
  const response = await fetch(`/v1/playground${path}`, {
    ...(body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {}),
  });
  const result = response.status === 204 ? {} : await response.json();
  if (!response.ok) throw new Error((result as { message?: string }).message ?? "The server refused the request.");
  return result as T;
}

/** Whether the server is `stoa dev`, which mints tokens for the playground. */
export async function isDev(): Promise<boolean> {
  try {
    return (await call<{ available: boolean }>("")).available;
  } catch {
    return false;
  }
}

export const join = (input: { room: string; identity: string; mode: PlaygroundMode }) =>
  call<Credentials>("/join", input);

export const moveStream = (streamId: string, action: "start" | "end") => call("/stream", { streamId, action });

export const impair = (roomId: string, identity: string, profile: NetworkProfile) =>
  call("/impair", { roomId, identity, profile });

/** Reads `#endpoint=…&token=…`, and `chatEndpoint`, `chatToken` and `conversation` for the chat. Fragments are never sent to a server. */
export function fromFragment(hash: string): Credentials | null {
  const fields = new URLSearchParams(hash.slice(1));
  const [endpoint, token] = [fields.get("endpoint") ?? defaultEndpoint(), fields.get("token")];
  if (!token) return null;
  const [chatToken, conversationId] = [fields.get("chatToken"), fields.get("conversation")];
  const chatEndpoint = fields.get("chatEndpoint") ?? endpoint.replace(/rtc$/, "chat/ws");
  return {
    mode: "call",
    identity: "",
    rtc: { endpoint, token },
    ...(chatToken && conversationId ? { chat: { endpoint: chatEndpoint, token: chatToken }, conversationId } : {}),
  };
}

export const defaultEndpoint = () => `${location.origin.replace(/^http/, "ws")}/v1/rtc`;

const COLOURS = ["amber", "coral", "indigo", "jade", "olive", "plum", "ruby", "slate", "teal", "umber"];
const ANIMALS = ["badger", "crane", "finch", "heron", "lynx", "marten", "otter", "robin", "swift", "wren"];

export const suggestName = () => `${pick(COLOURS)}-${pick(ANIMALS)}`;

function pick(words: string[]): string {
  return words[Math.floor(Math.random() * words.length)] ?? "guest";
}
