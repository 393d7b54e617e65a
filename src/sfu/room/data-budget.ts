/** How much data may be delivered: every recipient costs, so that one sender to many cannot take the worker. */

type Rates = { deliveriesPerSecond: number; bytesPerSecond: number };

/** Of one sender. Sixty messages a second to thirty others, say. */
export const SENDER_RATES: Rates = { deliveriesPerSecond: 2_000, bytesPerSecond: 8 * 1_024 * 1_024 };
/** Of all senders in a room together: what is left of the worker is for media. */
export const ROOM_RATES: Rates = { deliveriesPerSecond: 4_000, bytesPerSecond: 16 * 1_024 * 1_024 };

/**
 * A second's worth is saved up. One message may go into debt, because a message to a thousand viewers is either sent to all
 * of them or to none; the next waits until the debt is paid.
 */
export class DataBudget {
  readonly #rates: Rates;
  readonly #now: () => number;
  #deliveries: number;
  #bytes: number;
  #at: number;

  constructor(rates: Rates, now: () => number) {
    this.#rates = rates;
    this.#now = now;
    this.#deliveries = rates.deliveriesPerSecond;
    this.#bytes = rates.bytesPerSecond;
    this.#at = now();
  }

  get isSpent(): boolean {
    const now = this.#now();
    const seconds = (now - this.#at) / 1_000;
    const { deliveriesPerSecond, bytesPerSecond } = this.#rates;
    this.#deliveries = Math.min(deliveriesPerSecond, this.#deliveries + seconds * deliveriesPerSecond);
    this.#bytes = Math.min(bytesPerSecond, this.#bytes + seconds * bytesPerSecond);
    this.#at = now;
    return this.#deliveries <= 0 || this.#bytes <= 0;
  }

  spend(recipients: number, bytesEach: number): void {
    this.#deliveries -= recipients;
    this.#bytes -= recipients * bytesEach;
  }
}
