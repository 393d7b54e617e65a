/** Shared by the playground's page and its routes, which exist in development only. */
import { type Static, Type } from "@sinclair/typebox";
import { literals } from "./literals.ts";

/** `call` joins a call, `host` runs a live stream, `viewer` watches one. */
export const PlaygroundMode = literals(["call", "host", "viewer"]);
export type PlaygroundMode = Static<typeof PlaygroundMode>;

/** A simulated bad network between a participant and the media server: loss, delay, low bandwidth, no connection. */
export const NetworkProfile = literals(["none", "loss", "lag", "narrow", "offline"]);
export type NetworkProfile = Static<typeof NetworkProfile>;

/** The credentials with which a page joins, in the form in which a developer's own backend would return them. */
export const PlaygroundCredentials = Type.Object({
  mode: PlaygroundMode,
  identity: Type.String(),
  rtc: Type.Object({ endpoint: Type.String(), token: Type.String(), roomId: Type.String() }),
  chat: Type.Object({ endpoint: Type.String(), token: Type.String() }),
  conversationId: Type.String(),
  streamId: Type.Optional(Type.String()),
  streamStatus: Type.Optional(Type.String()),
});
export type PlaygroundCredentials = Static<typeof PlaygroundCredentials>;
