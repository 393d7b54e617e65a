import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../../src/ops/load-test/participants.ts";
import { type Honest, persist, repeatedly } from "./honest.ts";
import type { Subject } from "./subject.ts";
import type { PacketWire } from "./wires.ts";

const SUBSCRIBERS = 2;
const JOIN_WITHIN_MS = 10_000;
/** Longer than any pause a lossy network makes; a page would show its "reconnecting" by then and join again. */
const SILENCE_MS = 5_000;
const LOOK_EVERY_MS = 100;

/** A call of one who speaks and two who listen, by the load test's clients; begun again whenever it breaks. */
export class Call implements Honest {
  readonly name = "a call";
  readonly complaints: string[] = [];
  readonly stop: () => Promise<void>;
  begun = 0;
  readonly #subject: Subject;
  readonly #wire: PacketWire;
  readonly #packets = Array.from({ length: SUBSCRIBERS }, () => 0);
  #roomId = "";
  #over = false;

  constructor(subject: Subject, wire: PacketWire) {
    this.#subject = subject;
    this.#wire = wire;
    const stop = repeatedly(() => this.#hold(), this.complaints);
    this.stop = () => {
      this.#over = true;
      return stop();
    };
  }

  /** Packets that every listener got. */
  get done(): number {
    return Math.min(...this.#packets);
  }

  async #hold(): Promise<void> {
    const people: LoadParticipant[] = [];
    let hungUp = false;
    const closed = Promise.withResolvers<never>();
    closed.promise.catch(() => {
      hungUp = true;
    });
    const onClose = () => closed.reject(new Error("the socket of a participant was closed"));
    try {
      await Promise.race([this.#begin(people, onClose, () => hungUp), closed.promise]);
      this.begun++;
      let heard = this.#packets.join();
      for (let silentMs = 0; silentMs < SILENCE_MS && !hungUp && !this.#over; silentMs += LOOK_EVERY_MS) {
        await Bun.sleep(LOOK_EVERY_MS);
        const now = this.#packets.join();
        if (now !== heard) silentMs = 0;
        heard = now;
      }
    } catch {
      // The server went away, or did not answer in time: the next try finds out.
      await Bun.sleep(LOOK_EVERY_MS);
    }
    // A participant who still joins when the others give up leaves as well.
    hungUp = true;
    await Promise.all(people.map((one) => Promise.race([one.leave(), Bun.sleep(1_000)])));
    this.#wire.forget();
  }

  async #begin(people: LoadParticipant[], onClose: () => void, isOver: () => boolean): Promise<void> {
    if (this.#roomId === "") {
      const asked = { body: { name: "call" }, headers: { "idempotency-key": "call" } };
      this.#roomId = String((await persist(this.#subject, "POST", "/v1/rooms", asked)).body.id);
    }
    const certificate = await makeCertificate();
    const seat = async (participantIdentity: string, publish: boolean) => {
      const body = { participantIdentity, permissions: { publish }, ttlSeconds: 21_600 };
      const path = `/v1/rooms/${this.#roomId}/rtc-tokens`;
      const token = String((await persist(this.#subject, "POST", path, { body })).body.token);
      this.#subject.secrets.add(token);
      return { url: this.#subject.url, token, certificate, onClose, via: (sdp: string) => this.#wire.through(sdp) };
    };
    const publisher = await seated(joinPublisher(await seat("speaker", true)), people, isOver);
    const trackId = await inTime(publisher.trackId);
    for (let i = 0; i < SUBSCRIBERS; i++) {
      const heard = () => {
        this.#packets[i] = (this.#packets[i] ?? 0) + 1;
      };
      await seated(joinSubscriber(await seat(`listener-${i}`, false), [trackId], heard), people, isOver);
    }
  }
}

/** A participant who joins when the call is over leaves. */
function seated<T extends LoadParticipant>(joining: Promise<T>, people: LoadParticipant[], isOver: () => boolean) {
  joining.then(
    (person) => void (isOver() ? person.leave() : people.push(person)),
    () => {},
  );
  return inTime(joining);
}

async function inTime<T>(joining: Promise<T>): Promise<T> {
  const timer = Promise.withResolvers<never>();
  const handle = setTimeout(() => timer.reject(new Error("nobody answered in time")), JOIN_WITHIN_MS);
  return Promise.race([joining, timer.promise]).finally(() => clearTimeout(handle));
}
