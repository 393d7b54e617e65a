export const ABSTAIN_PATH = "/v1/cluster/abstain";

/** What a member answers a leader that is not sure. */
export type AbstainAnswer = { role: "leader" | "standby"; abstains: boolean };

/** Whether every other member promised not to lead for a moment; the address of one that leads, if there is one. */
export type PeersAnswer = { all: boolean; other: string | null };

const ANSWER_WITHIN_MS = 1_000;

/** Asks those who may lead; when it is not known who they are, nobody speaks for all of them. */
export async function abstentionsOf(peers: readonly string[] | null, credential: string): Promise<PeersAnswer> {
  if (peers === null) return { all: false, other: null };
  const answers = await Promise.all(peers.map((peer) => ask(peer, credential)));
  const other = peers.find((_, index) => answers[index]?.role === "leader") ?? null;
  return { all: answers.every((answer) => answer?.abstains === true), other };
}

async function ask(peer: string, credential: string): Promise<AbstainAnswer | null> {
  try {
    const response = await fetch(`${peer}${ABSTAIN_PATH}`, {
      method: "POST",
      headers: { authorization: `Bearer ${credential}` },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      keepalive: false,
    });
    return response.ok ? ((await response.json()) as AbstainAnswer) : null;
  } catch {
    return null;
  }
}
