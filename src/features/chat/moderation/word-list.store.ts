import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { WordList } from "./word-list.ts";

export function wordListStore({ $client: client }: Db) {
  const get = reading(() =>
    client.prepare<{ words: string }, [string, string]>(
      "SELECT words FROM chat_word_lists WHERE project_id = ? AND environment = ?",
    ),
  );
  const tenants = reading(() =>
    client.prepare<Tenant, []>("SELECT project_id AS projectId, environment FROM chat_word_lists"),
  );
  const put = changing(() =>
    client.prepare(
      `INSERT INTO chat_word_lists VALUES (?, ?, ?, ?)
       ON CONFLICT (project_id, environment) DO UPDATE SET words = excluded.words, updated_at = excluded.updated_at`,
    ),
  );
  return {
    get({ projectId, environment }: Tenant): WordList | null {
      const row = get.get(projectId, environment);
      return row === null ? null : (JSON.parse(row.words) as WordList);
    },
    /** Projects that have one. */
    tenants: (): Tenant[] => tenants.all(),
    put: (unit: Unit, { projectId, environment }: Tenant, list: WordList, at: number) =>
      void put.run(unit, projectId, environment, JSON.stringify(list), at),
  };
}
