import { WebSocket as Fallback } from "ws";

/** The runtime's own, and where there is none, as in Node 20, one that works alike: `connectChat(…, { WebSocket })`. */
export const WebSocket: typeof globalThis.WebSocket =
  globalThis.WebSocket ?? (Fallback as unknown as typeof globalThis.WebSocket);
