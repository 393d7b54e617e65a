/**
 * How LiveKit's clients say that one of their own time limits has passed. The limits are meant for networks: a machine that is
 * busy with other tests takes longer than the ten seconds that a client waits for the answer to a published track.
 */
const TOO_LATE = /timed out|within timeout|could not (establish|recover|connect)|no response from/i;
const TRIES = 3;

/** Does something again, as a user would, if a client has failed because of its time limits. What fails otherwise, fails at once. */
export async function patiently<T>(work: () => Promise<T>, complaints = async (): Promise<string[]> => []): Promise<T> {
  for (let tries = 1; ; tries++) {
    const { length: earlier } = await complaints();
    try {
      return await work();
    } catch (error) {
      const late = [String(error), ...(await complaints()).slice(earlier)].filter((text) => TOO_LATE.test(text));
      if (tries === TRIES || late.length === 0) throw error;
      console.log(`      again, because the client was too slow: ${late.join(" | ").slice(0, 500)}`);
    }
  }
}
