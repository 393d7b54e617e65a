// This module is separate from the session, because the package exports it and its types must not refer to the
// protocol's schemas.
import { WebSocket as Fallback } from "ws";

/** In Node an `error` event without a listener ends the process. The `close` event that follows says enough. */
class QuietWebSocket extends Fallback {
  constructor(...args: ConstructorParameters<typeof Fallback>) {
    super(...args);
    this.on("error", () => {});
  }
}

/** The runtime's WebSocket, or a compatible one for Node 20, which has none: `connectChat(…, { WebSocket })`. */
export const WebSocket: typeof globalThis.WebSocket =
  globalThis.WebSocket ?? (QuietWebSocket as unknown as typeof globalThis.WebSocket);
