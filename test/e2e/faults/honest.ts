import type { Answer, Asked, Subject } from "./subject.ts";

/** A client that uses the server as intended, comes back after every fault, and remembers what it was told. */
export type Honest = {
  readonly name: string;
  /** Grows with everything that succeeds: a client that stands still has not recovered. */
  readonly done: number;
  /** Messages that this client received and should not have. */
  readonly complaints: string[];
  /** Finishes what is under way. */
  stop(): Promise<void>;
};

const AGAIN_AFTER_MS = 100;
const PASSING_CODES = ["SVC_RATE_LIMITED", "SVC_IDEMPOTENCY_IN_PROGRESS"];

/** Asks the same until there is an answer that stands; throws when what was asked is refused, which is never right here. */
export async function persist(subject: Subject, method: string, path: string, asked: Asked = {}): Promise<Answer> {
  for (;;) {
    const answer = await subject.call(method, path, asked).catch(() => null);
    if (answer && answer.status < 300) return answer;
    if (answer && answer.status < 500 && !PASSING_CODES.includes(String(answer.body.code)))
      throw new Error(`${method} ${path} was refused: ${answer.status} ${JSON.stringify(answer.body)}`);
    await Bun.sleep(AGAIN_AFTER_MS);
  }
}

/** Runs `turn` again and again; an error in it is a complaint, and does not end it. */
export function repeatedly(turn: () => Promise<void>, complaints: string[]): () => Promise<void> {
  let stopped = false;
  const running = (async () => {
    while (!stopped) {
      try {
        await turn();
      } catch (error) {
        complaints.push(String(error));
        await Bun.sleep(AGAIN_AFTER_MS);
      }
    }
  })();
  return async () => {
    stopped = true;
    await running;
  };
}
