import type { RtcConnectionChange } from "../../../src/features/sessions/events.ts";
import type { Environment } from "../../../src/protocol/enums.ts";
import type { TestServer } from "../../harness/server.ts";

type Scene = {
  projectId: string;
  environment?: Environment;
  connectionId?: string;
  identity?: string;
  sessionId?: string;
  roomId?: string;
};

/** Says on the bus what signaling says, at the clock's time. */
export function emitConnectionEvent(server: TestServer, scene: Scene, event: RtcConnectionChange): void {
  const at = server.clock.now();
  const { projectId, connectionId = "conn-1", identity = "anna", sessionId = `session-${connectionId}` } = scene;
  server.runtime.bus.emit("rtcConnection", {
    sessionId,
    connectionId,
    projectId,
    environment: scene.environment ?? "DEVELOPMENT",
    roomId: scene.roomId ?? "room-1",
    roomName: "lobby",
    participantIdentity: identity,
    metadata: null,
    participantName: null,
    participantAttributes: {},
    participantKind: "standard",
    tokenId: "token-1",
    serverName: "local",
    sdk: "stoa-js/1",
    userAgent: "test",
    ipAddress: "198.51.100.7",
    startedAt: at,
    at,
    ...event,
  });
}

export const CONNECTED: RtcConnectionChange = {
  type: "connected",
  transport: "udp",
  remoteAddress: "198.51.100.7:1",
  joinTimeMs: 180,
};
