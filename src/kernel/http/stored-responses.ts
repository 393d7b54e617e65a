import { changeEach, pages } from "../db/pages.ts";
import { changing } from "../db/statements.ts";
import type { Runtime } from "../runtime.ts";

/** Bodies are parsed one by one: fewer than rows of other walks. */
const RESPONSES_PER_PAGE = 100;

/** Removes responses that are stored for repeated requests. They have no owner of their own: `matches` reads the body. */
export async function removeStoredResponses(
  { db: { $client: client }, write }: Pick<Runtime, "db" | "write">,
  matches: (body: unknown) => boolean,
): Promise<void> {
  const read = client.prepare<{ id: string; body: string }, [string, number]>(
    "SELECT id, body FROM idempotency_keys WHERE id > ? ORDER BY id LIMIT ?",
  );
  const remove = changing(() => client.prepare<unknown, [string]>("DELETE FROM idempotency_keys WHERE id = ?"));
  const matching = pages("", (after) => {
    const rows = read.all(after, RESPONSES_PER_PAGE);
    const last = rows.at(-1);
    return last ? { until: last.id, rows: rows.filter(({ body }) => matches(JSON.parse(body))) } : null;
  });
  await changeEach(write, matching, (unit, { id }) => void remove.run(unit, id));
}
