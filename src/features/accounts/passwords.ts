import { ApiError } from "../../protocol/errors.ts";

/** OWASP's parameters for argon2id: 19 MiB a run, so that a burst of sign-ins does not exhaust a small machine. */
const ARGON2 = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

/** Hash of a password nobody has, made with the same parameters: what an unknown address is verified against. */
export const NOBODYS_HASH =
  "$argon2id$v=19$m=19456,t=2,p=1$VxknMTdJidFSh+zYytlruh9vEGx3N/u2k70aTtayTOQ$VEaU2Oj2DvfarTmWYyoyw7rwsEQ8fWVBpC6KdZ8Dys8";

const AT_ONCE = 2;
/** Some seconds of work. Who comes later is better told to come again than kept waiting. */
const MAX_WAITING = 100;

export type Passwords = {
  hash(password: string): Promise<string>;
  /** Takes as long for `null` (no such account, or one without a password) as for a wrong password. */
  verify(password: string, hash: string | null): Promise<boolean>;
};

/** Bounded: each run takes memory and a core, and whoever asks has not signed in yet. */
export function createPasswords(): Passwords {
  let running = 0;
  const waiting: (() => void)[] = [];

  async function bounded<T>(work: () => Promise<T>): Promise<T> {
    if (waiting.length >= MAX_WAITING) throw new ApiError("SVC_RATE_LIMITED", undefined, { retryAfterSeconds: 5 });
    if (running >= AT_ONCE) await new Promise<void>((go) => waiting.push(go));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place is handed on, not given back, so that a newcomer cannot slip in between.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  }

  // One spelling: keyboards and systems encode the same accented letter differently.
  const spelled = (password: string) => password.normalize("NFKC");

  return {
    hash: (password) => bounded(() => Bun.password.hash(spelled(password), ARGON2)),
    async verify(password, hash) {
      const matches = await bounded(() => Bun.password.verify(spelled(password), hash ?? NOBODYS_HASH));
      return matches && hash !== null;
    },
  };
}
