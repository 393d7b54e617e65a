import { availableParallelism } from "node:os";
import { ApiError } from "../../protocol/errors.ts";

/** OWASP's parameters for argon2id. One run takes 19 MiB, so a burst of sign-ins does not exhaust a small machine. */
const ARGON2 = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

/** Hash of a random password with the same parameters, for e-mail addresses without an account or a password. */
export const DUMMY_HASH =
  "$argon2id$v=19$m=19456,t=2,p=1$VxknMTdJidFSh+zYytlruh9vEGx3N/u2k70aTtayTOQ$VEaU2Oj2DvfarTmWYyoyw7rwsEQ8fWVBpC6KdZ8Dys8";

const MAX_RUNNING = 2;
/** The maximum corresponds to a few seconds of work; a later request is rejected instead of waiting longer. */
const MAX_WAITING = 100;

export type Passwords = ReturnType<typeof createPasswords>;

/**
 * Limits concurrent hashes, because each one takes memory and a core, and the client that causes it has not signed in
 * yet. One core is left for everything else, if there are two.
 */
export function createPasswords(cores = availableParallelism()) {
  const maxRunning = Math.max(1, Math.min(MAX_RUNNING, cores - 1));
  let running = 0;
  const waiting: (() => void)[] = [];

  async function bounded<T>(work: () => Promise<T>): Promise<T> {
    if (waiting.length >= MAX_WAITING) throw new ApiError("SVC_RATE_LIMITED", undefined, { retryAfterSeconds: 5 });
    if (running >= maxRunning) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The slot passes directly to the next waiter, so that a newer request cannot take it first.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  }

  // Input methods and operating systems encode the same accented letter differently.
  const normalize = (password: string) => password.normalize("NFKC");

  return {
    hash: (password: string): Promise<string> => bounded(() => Bun.password.hash(normalize(password), ARGON2)),
    /** Takes as long for `null` (no account or no password) as for a wrong password. */
    async verify(password: string, hash: string | null): Promise<boolean> {
      const matches = await bounded(() => Bun.password.verify(normalize(password), hash ?? DUMMY_HASH));
      return matches && hash !== null;
    },
  };
}
