import type { ChatConnected } from "../../../src/protocol/chat.ts";
import type { ConnectionState, TokenProvider } from "../connection-state.ts";
import type { StoaError } from "../errors.ts";
import { Link } from "../link.ts";
import type { Frame, Wire } from "../wire.ts";

export type ChatLinkHooks = {
  onState: (state: ConnectionState, error: StoaError | null) => void;
  onFrame: (frame: Frame) => void;
  /** The server knows us: rejoin on this socket before anything else is sent. */
  onHello: (hello: ChatConnected, wire: Wire) => Promise<void>;
};

/** Close codes after which a new token may help, and the one that nothing helps. */
const TOKEN_CODES = new Set([4401, 4440]);
const FORBIDDEN = 4403;

/** The chat socket. One that is refused is accepted first and then closed: only `connected` tells that it is not. */
export function chatLink(
  endpoint: string,
  token: string,
  tokenProvider: TokenProvider | undefined,
  { onState, onFrame, onHello }: ChatLinkHooks,
): Link {
  return new Link(endpoint, token, tokenProvider, {
    onState,
    onFrame,
    establish: async (wire) => onHello(await wire.expect<ChatConnected>("connected"), wire),
    onConnected: () => {},
    judge({ code, error }) {
      if (code === FORBIDDEN) return { kind: "end", state: "FAILED", error };
      if (TOKEN_CODES.has(code)) return { kind: "renew", error };
      return { kind: "again", afterMs: 0 };
    },
  });
}
