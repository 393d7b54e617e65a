// This module is separate from the session, because the package exports it and its types must not refer to the
// protocol's schemas.
import { WebSocket as Fallback } from "ws";

/** The runtime's WebSocket, or a compatible one for Node 20, which has none: `connectChat(…, { WebSocket })`. */
export const WebSocket: typeof globalThis.WebSocket =
  globalThis.WebSocket ?? (Fallback as unknown as typeof globalThis.WebSocket);
