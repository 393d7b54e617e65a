/** As the server's connection records name them. */
export type ConnectionState = "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED";

/** Asks your backend for a fresh token; called whenever the one in use has expired or is about to. */
export type TokenProvider = () => string | Promise<string>;
