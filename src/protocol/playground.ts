/** What the playground's page and its dev-only routes say to each other. */
import { type Static, Type } from "@sinclair/typebox";
import { literals } from "./literals.ts";

/** `call` meets others, `host` runs a live stream, `viewer` watches one. */
export const PlaygroundMode = literals(["call", "host", "viewer"]);
export type PlaygroundMode = Static<typeof PlaygroundMode>;

/** A bad network between one participant and the media server: lost packets, slow ones, few of them, none at all. */
export const NetworkProfile = literals(["none", "loss", "lag", "narrow", "offline"]);
export type NetworkProfile = Static<typeof NetworkProfile>;

/** What a page needs to join, as a developer's own backend would answer it. */
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
