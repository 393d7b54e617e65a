import type { ChatConnected } from "../../../src/protocol/chat.ts";
import { CHAT_CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import type { ConnectionState, TokenProvider, WaitingListener } from "../connection-state.ts";
import type { ChatProtocol } from "../protocol.ts";
import type { StoaError } from "../errors.ts";
import { ReconnectingSocket } from "../reconnecting-socket.ts";
import type { RequestSocket } from "../request-socket.ts";

export type ChatPush = ChatProtocol["push"];

export type ChatLinkHooks = {
  onWaiting: WaitingListener;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  onFrame: (push: ChatPush) => void;
  /** The server knows us: rejoin on this socket before anything else is sent. */
  onHello: (hello: ChatConnected, wire: RequestSocket<ChatProtocol>) => Promise<void>;
  WebSocket: typeof WebSocket | undefined;
};

/** Close codes after which a new token may help, and the one that nothing helps. */
const TOKEN_CODES = new Set<number>([CHAT_CLOSE_CODES.unauthorized, CHAT_CLOSE_CODES.tokenExpired]);

/** The chat socket. One that is refused is accepted first and then closed: only `connected` tells that it is not. */
export function chatLink(
  endpoint: string,
  token: string,
  tokenProvider: TokenProvider | undefined,
  { onState, onWaiting, onFrame, onHello, WebSocket }: ChatLinkHooks,
): ReconnectingSocket<ChatProtocol> {
  return new ReconnectingSocket<ChatProtocol>(endpoint, token, tokenProvider, {
    onState,
    onWaiting,
    onFrame,
    WebSocket,
    greeting: "connected",
    establish: async (wire) => onHello(await wire.expect("connected"), wire),
    onConnected: () => {},
    onClose({ code, error }) {
      if (code === CHAT_CLOSE_CODES.forbidden) return { kind: "end", state: "FAILED", error };
      if (TOKEN_CODES.has(code)) return { kind: "renew", error };
      return { kind: "again", afterMs: 0 };
    },
  });
}
