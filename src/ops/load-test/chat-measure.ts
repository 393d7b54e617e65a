/** Measures every message: when it was sent and acknowledged, and its deliveries in order. */
import { causeOf, type Percentiles, percentiles, Tally, within } from "./figures.ts";

export type ChatFigures = {
  sends: number;
  acks: number;
  /** The number of messages without acknowledgement, by error code. */
  notAcknowledged: Record<string, number>;
  /** The time from sending to the acknowledgement. */
  ackMs: Percentiles;
  deliveriesExpected: number;
  deliveries: number;
  /** The time from sending to the reception by a reader. */
  deliveryMs: Percentiles;
  lost: number;
  outOfOrder: number;
};

const ACK_TIMEOUT_MS = 10_000;
/** The time that readers have after the last acknowledgement. */
const DRAIN_MS = 5_000;
const DRAIN_STEP_MS = 50;

export class ChatMeasure {
  readonly #run: string;
  readonly #sentAt = new Map<string, number>();
  readonly #ackMs: number[] = [];
  readonly #deliveryMs: number[] = [];
  readonly #notAcknowledged = new Tally();
  readonly #underWay = new Set<Promise<void>>();
  #expected = 0;
  #outOfOrder = 0;

  constructor(run: string) {
    this.#run = run;
  }

  get summary(): string {
    return `${this.#sentAt.size} sent, ${this.#ackMs.length} acknowledged, ${this.#deliveryMs.length} delivered`;
  }

  /** Sends the next message, whose text identifies it. Once it is acknowledged, `readers` deliveries are expected. */
  send(readers: number, post: (text: string) => Promise<void>): void {
    const text = `${this.#run}-${this.#sentAt.size}`;
    const sentAt = performance.now();
    this.#sentAt.set(text, sentAt);
    const one = within(ACK_TIMEOUT_MS, post(text))
      .then(() => {
        this.#ackMs.push(performance.now() - sentAt);
        this.#expected += readers;
      })
      .catch((error) => this.#notAcknowledged.add(causeOf(error)))
      .finally(() => this.#underWay.delete(one));
    this.#underWay.add(one);
  }

  /** Returns the listener of one reader. */
  reader(): (text: string, seq: number) => void {
    const seen = new Set<string>();
    let lastSeq = 0;
    return (text, seq) => {
      const sentAt = this.#sentAt.get(text);
      if (sentAt === undefined) return;
      if (seq <= lastSeq) this.#outOfOrder++;
      lastSeq = Math.max(lastSeq, seq);
      if (seen.has(text)) return;
      seen.add(text);
      this.#deliveryMs.push(performance.now() - sentAt);
    };
  }

  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    for (let waited = 0; this.#deliveryMs.length < this.#expected && waited < DRAIN_MS; waited += DRAIN_STEP_MS) {
      await Bun.sleep(DRAIN_STEP_MS);
    }
  }

  figures(): ChatFigures {
    return {
      sends: this.#sentAt.size,
      acks: this.#ackMs.length,
      notAcknowledged: this.#notAcknowledged.counts,
      ackMs: percentiles(this.#ackMs),
      deliveriesExpected: this.#expected,
      deliveries: this.#deliveryMs.length,
      deliveryMs: percentiles(this.#deliveryMs),
      lost: Math.max(0, this.#expected - this.#deliveryMs.length),
      outOfOrder: this.#outOfOrder,
    };
  }
}
