import { Connection, type ConnectionEvents, MAX_DATA_MESSAGE_BYTES } from "../transport/connection.ts";
import { type AnsweredSection, type AnswerParts, writeAnswer } from "../wire/sdp/answer.ts";
import type { Offer } from "../wire/sdp/offer.ts";
import type { ParticipantHost } from "./host.ts";

type PeerConnectionEvents = ConnectionEvents & {
  /** Another peer connection replaces this one, and everything on it has ended. */
  onReplaced(): void;
  onOpened(connection: Connection): void;
};

export class PeerConnection {
  connection: Connection | null = null;
  readonly #host: ParticipantHost;
  readonly #events: PeerConnectionEvents;
  /** The parts of the last offer by which the next one is recognised as belonging to the same peer connection. */
  #peer: Pick<Offer, "sessionId" | "iceUfrag" | "fingerprints"> | null = null;
  #ice = { ufrag: "", pwd: "" };
  readonly #sessionId = String(BigInt.asUintN(62, BigInt(Bun.hash(crypto.randomUUID()))));
  #version = 1;

  constructor(host: ParticipantHost, events: PeerConnectionEvents) {
    this.#host = host;
    this.#events = events;
  }

  /**
   * An offer with another `o=` session or certificate comes from another peer connection of the client and replaces this one. An
   * offer without a certificate is followed by one that has it.
   */
  applyOffer(offer: Offer): Connection {
    const before = this.#peer;
    const same =
      this.connection !== null &&
      before?.sessionId === offer.sessionId &&
      (offer.fingerprints.length === 0 ||
        before.fingerprints.every((old) => offer.fingerprints.some((fresh) => fresh.value === old.value)));
    const { sessionId, iceUfrag, fingerprints } = offer;
    this.#peer = { sessionId, iceUfrag, fingerprints };
    const theirs = offer.fingerprints.length === 0 ? null : { ufrag: offer.iceUfrag, pwd: offer.icePwd };
    if (same && this.connection) {
      this.connection.certificateNamed(offer.fingerprints);
      if (before?.iceUfrag === offer.iceUfrag) return this.connection;
      // An offer without a certificate has placeholder credentials. The next offer has the client's real ones, which is no ICE
      // restart.
      if (before?.fingerprints.length === 0 && theirs) this.connection.ice.setRemoteCredentials(theirs);
      else this.#ice = this.connection.issueCredentials(theirs);
      return this.connection;
    }
    this.close();
    const connection = new Connection(this.#host, offer.fingerprints, this.#events);
    this.connection = connection;
    this.#ice = connection.issueCredentials(theirs);
    this.#events.onOpened(connection);
    return connection;
  }

  answer(
    offer: Offer,
    sections: readonly AnsweredSection[],
    outgoing: Pick<AnswerParts, "outgoing" | "streams">,
  ): string {
    return writeAnswer({
      offer,
      sections,
      ...outgoing,
      sessionId: this.#sessionId,
      version: this.#version++,
      ice: this.#ice,
      fingerprint: this.#host.fingerprint,
      candidates: this.#host.candidates,
      maxMessageSize: MAX_DATA_MESSAGE_BYTES,
    });
  }

  close(): void {
    if (!this.connection) return;
    this.#host.retired(this.connection.refusals ?? {});
    this.connection.close();
    this.connection = null;
    this.#events.onReplaced();
  }
}
