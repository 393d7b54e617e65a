/** The compositor's connection to the room: a participant known to the media node only, so that clients neither see nor count it. */
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { MediaNode, NegotiateAnswer } from "../../protocol/media-node.ts";
import { SUBSCRIBE_ONLY } from "../../protocol/room-records.ts";
import type { SubscribedSection, SubscriptionChange } from "../../protocol/signaling.ts";

/** The media ports of this process are also open on loopback, whereas its public address may be unreachable from here. */
export const onLoopback = (sdp: string): string =>
  sdp.replaceAll(/(a=candidate:\S+ \d+ udp \d+ )\S+/g, (_, before: string) => `${before}127.0.0.1`);

export class RoomLink {
  readonly #nodes: Pick<MediaNodes, "find">;
  readonly #roomId: string;
  readonly #newId: () => string;
  #participantId = "";
  serverName: string | null = null;

  constructor(nodes: Pick<MediaNodes, "find">, roomId: string, newId: () => string) {
    this.#nodes = nodes;
    this.#roomId = roomId;
    this.#newId = newId;
  }

  async open(serverName: string): Promise<void> {
    this.#participantId = this.#newId();
    this.serverName = serverName;
    await this.#node().addParticipant({
      roomId: this.#roomId,
      participantId: this.#participantId,
      identity: `egress ${this.#participantId}`,
      permissions: SUBSCRIBE_ONLY,
      unlisted: true,
    });
  }

  async negotiate(sdp: string, subscribe: SubscribedSection[]): Promise<NegotiateAnswer> {
    const node = this.#node();
    const { roomId, participantId } = { roomId: this.#roomId, participantId: this.#participantId };
    const answer = await node.negotiate({ roomId, participantId, sdp, publish: [], subscribe });
    return node.remote ? answer : { ...answer, sdp: onLoopback(answer.sdp) };
  }

  update(tracks: SubscriptionChange[]): Promise<void> {
    return this.#node().updateSubscriptions({ roomId: this.#roomId, participantId: this.#participantId, tracks });
  }

  async close(): Promise<void> {
    const node = this.serverName === null ? null : this.#nodes.find(this.serverName);
    this.serverName = null;
    await node?.removeParticipant({ roomId: this.#roomId, participantId: this.#participantId }).catch(() => {});
  }

  #node(): MediaNode {
    const node = this.serverName === null ? null : this.#nodes.find(this.serverName);
    if (!node) throw new Error("the room is not on a media node");
    return node;
  }
}
