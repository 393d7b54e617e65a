/** The media node's end of the protocol with its control plane (remote-protocol.ts). */
import { messageOf } from "../kernel/error-message.ts";
import type { Log } from "../kernel/log.ts";
import { createReplayRing, type ReplayRing } from "../kernel/socket/replay-ring.ts";
import type { Socket } from "../kernel/socket/sockets.ts";
import type { StartRecording } from "../protocol/media/recording.ts";
import type { OpenedLink } from "../protocol/media/relay.ts";
import {
  type AddParticipant,
  MEDIA_METHODS,
  type MediaEndpoints,
  MediaError,
  type MediaEvent,
  type MediaNode,
  type RoomSnapshot,
} from "../protocol/media-node.ts";
import { clockAhead } from "../sfu/ticker.ts";
import type { NodeRecordings } from "./node-recordings.ts";
import {
  type FromNode,
  NODE_RING_CHARACTERS,
  NODE_RING_FRAMES,
  type NodePush,
  type ToNode,
} from "./remote-protocol.ts";

type SessionRef = { session: string; lastSeq: number };

export type NodeServer = {
  /** Accepts a connection of the control plane, and closes an older one. */
  connect(socket: Socket, ref: SessionRef): { received(text: string): void; closed(): void };
  readonly connected: boolean;
  /** Tells the control plane to move its rooms to other nodes. */
  announceClosing(): void;
};

const CLOSE_REPLACED = 4409;
const CLOSE_MALFORMED = 4400;

/** The control plane's records by room and participant, which it gets back after a restart. */
export type ParticipantRecords = Map<string, Map<string, string>>;

type NodeServerParts = {
  media?: MediaEndpoints;
  recordings?: NodeRecordings;
  links?: () => OpenedLink[];
  /** The records of participants that were on the node before this server was created, by room. */
  records?: Iterable<[roomId: string, Map<string, string>]>;
  /** Events about recordings that happened before; the first control plane gets them too. */
  missed?: ReplayRing;
  /** The clock that stamps recorded media: the engine's, which runs evenly even when the machine's clock is set. */
  clock?: () => number;
};

export const newRing = () => createReplayRing(NODE_RING_FRAMES, { keptCharacters: NODE_RING_CHARACTERS });

export function createNodeServer(
  node: MediaNode,
  log: Log,
  {
    media,
    recordings,
    links,
    records: present = [],
    missed = newRing(),
    clock = clockAhead({ ms: 0 }),
  }: NodeServerParts = {},
): NodeServer {
  const records: ParticipantRecords = new Map();
  for (const [roomId, room] of present) records.set(roomId, room);
  let session = "";
  let ring = missed;
  let lastCall = 0;
  let connection: Socket | null = null;
  /** Null until the welcome has been sent; until then events wait in the ring. */
  let reader: Socket | null = null;

  node.onEvent((event) => {
    forgetLost(event);
    recordings?.onEvent(event);
    // The first control plane learns everything else from the snapshot of the rooms.
    if (session !== "" || "recordingId" in event) push({ type: "event", event });
  });

  function push(body: NodePush): void {
    const frame = ring.add(JSON.stringify(body));
    reader?.send(frame);
  }

  const send = (socket: Socket, frame: FromNode) => socket.send(JSON.stringify(frame));

  async function perform({ id, method, request }: Extract<ToNode, { type: "call" }>): Promise<void> {
    const requestSession = session;
    try {
      if (!MEDIA_METHODS.includes(method)) throw new Error(`no such method: ${method}`);
      const call = node[method] as (request: unknown) => Promise<unknown>;
      const isRecording = method === "startRecording" && recordings !== undefined;
      const response = await call.call(node, isRecording ? recordings.begin(request as StartRecording) : request);
      remember(method, request);
      // A control plane that has taken over begins its request ids at 1 again, so older answers are not for it.
      if (requestSession === session) push({ type: "answer", id, response });
    } catch (error) {
      const code = error instanceof MediaError ? error.code : null;
      if (code === null) log.error({ err: error, method }, "control plane: request failed");
      const message = messageOf(error);
      if (requestSession === session) push({ type: "error", id, code, message });
    }
  }

  function remember(method: string, request: unknown): void {
    const { roomId, participantId, record } = (request ?? {}) as AddParticipant;
    if (method === "addParticipant" && record !== undefined) {
      const room = records.get(roomId) ?? new Map<string, string>();
      records.set(roomId, room.set(participantId, record));
    } else if (method === "removeParticipant") records.get(roomId)?.delete(participantId);
    else if (method === "closeRoom") records.delete(roomId);
  }

  function forgetLost(event: MediaEvent): void {
    if (event.type !== "workerCrashed") return;
    for (const { roomId, participantIds, remains } of event.rooms) {
      if (!remains) records.delete(roomId);
      else for (const participantId of participantIds) records.get(roomId)?.delete(participantId);
    }
  }

  async function snapshots(): Promise<RoomSnapshot[]> {
    const rooms = await Promise.all((await node.rooms()).map(({ roomId }) => node.room({ roomId }).catch(() => null)));
    return rooms
      .filter((room) => room !== null)
      .map(({ roomId, participants }) => ({
        roomId,
        participants: participants.map((one) => ({ ...one, record: records.get(roomId)?.get(one.participantId) })),
      }));
  }

  async function welcome(socket: Socket, ref: SessionRef): Promise<void> {
    const known = ref.session === session ? ring.since(ref.lastSeq) : null;
    if (!known) {
      if (session !== "") ring = newRing();
      session = ref.session;
      lastCall = 0;
    }
    const rooms = known ? [] : await snapshots();
    if (connection !== socket) return;
    const resumed = known !== null;
    send(socket, {
      type: "welcome",
      resumed,
      lastCall,
      rooms,
      ...(links && { links: links() }),
      ...(media && { media }),
    });
    reader = socket;
    for (const frame of ring.since(known ? ref.lastSeq : 0) ?? []) socket.send(frame);
  }

  function received(socket: Socket, text: string): void {
    let frame: ToNode;
    try {
      frame = JSON.parse(text) as ToNode;
    } catch {
      socket.close(CLOSE_MALFORMED, "not JSON");
      return;
    }
    if (frame.type === "ping") send(socket, { type: "pong", sentAtMs: frame.sentAtMs, clockMs: clock() });
    else if (frame.type === "call" && frame.id > lastCall) {
      lastCall = frame.id;
      void perform(frame);
    }
  }

  return {
    get connected() {
      return reader !== null;
    },

    connect(socket, ref) {
      const before = connection;
      connection = socket;
      reader = null;
      before?.close(CLOSE_REPLACED, "replaced");
      welcome(socket, ref).catch((err) => {
        log.error({ err }, "control plane: handshake failed");
        socket.close(1011, "failed");
      });
      return {
        received: (text) => received(socket, text),
        closed() {
          if (connection !== socket) return;
          connection = null;
          reader = null;
        },
      };
    },

    announceClosing() {
      if (reader) send(reader, { type: "closing" });
    },
  };
}
