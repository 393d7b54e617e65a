import type { Author } from "../../../kernel/author.ts";
import type { Db } from "../../../kernel/db/open.ts";
import { inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type Tenant, tenantKey, tenantsUsing } from "../../../kernel/tenant.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { chatWordLists } from "./moderation.table.ts";
import { type CompiledList, compileList, EMPTY_LIST, screen, type WordList } from "./word-list.ts";

const MAX_LISTED_WORDS = 1_000;

export type WordListService = ReturnType<typeof wordListService>;

/** The word lists of projects. Every message is screened, so the compiled lists stay in memory until they change. */
export function wordListService({ bus, db, now }: Runtime) {
  const store = wordListStore(db);
  const tenants = tenantsUsing(bus, store.tenants);
  const compiled = new Map<string, CompiledList | null>();
  bus.on("wordListChanged", (tenant) => {
    tenants.add(tenant);
    compiled.delete(tenantKey(tenant));
  });
  bus.on("changedElsewhere", () => compiled.clear());

  function listOf(tenant: Tenant): CompiledList | null {
    const key = tenantKey(tenant);
    const known = compiled.get(key);
    if (known !== undefined) return known;
    const stored = store.get(tenant);
    const list = stored === null ? null : compileList(stored);
    compiled.set(key, list);
    return list;
  }

  return {
    get: (tenant: Tenant): WordList => store.get(tenant) ?? EMPTY_LIST,

    put(unit: Unit, { projectId, environment }: Tenant, input: WordList, author: Author): WordList {
      const normalized = (words: string[]) =>
        [...new Set(words.map((word) => word.trim()))].filter((word) => word !== "");
      const list = { refuse: normalized(input.refuse), mask: normalized(input.mask), report: normalized(input.report) };
      if (list.refuse.length + list.mask.length + list.report.length > MAX_LISTED_WORDS) {
        throw invalid("refuse", `and mask and report together must have at most ${MAX_LISTED_WORDS} entries`);
      }
      const at = now();
      store.put(unit, { projectId, environment }, list, at);
      bus.publish(unit, "wordListChanged", { projectId, environment });
      bus.publish(unit, "audit", {
        ...author,
        environment,
        action: "word_list.updated",
        projectId,
        resourceId: environment,
        at,
        metadata: { refuse: list.refuse.length, mask: list.mask.length, report: list.report.length },
      });
      return list;
    },

    isUsed: tenants.has,

    /** The text with masked words; throws when the text contains a refused word. */
    screened(tenant: Tenant, text: string | null): { text: string | null; isReported: boolean } {
      const list = listOf(tenant);
      if (list === null || text === null) return { text, isReported: false };
      const { refused, ...screened } = screen(list, text);
      if (refused) throw new ApiError("SVC_MESSAGE_REFUSED", "The message holds words that are not wanted here.");
      return screened;
    },
  };
}

function wordListStore({ $client: client }: Db) {
  const get = reading<{ words: string }, [string, string]>(
    client,
    "SELECT words FROM chat_word_lists WHERE project_id = ? AND environment = ?",
  );
  const tenants = reading<Tenant, []>(client, "SELECT project_id AS projectId, environment FROM chat_word_lists");
  const put = inserter<typeof chatWordLists.$inferSelect>(
    client,
    chatWordLists,
    "ON CONFLICT (project_id, environment) DO UPDATE SET words = excluded.words, updated_at = excluded.updated_at",
  );
  return {
    get({ projectId, environment }: Tenant): WordList | null {
      const row = get.get(projectId, environment);
      return row === null ? null : (JSON.parse(row.words) as WordList);
    },
    tenants: (): Tenant[] => tenants.all(),
    put: (unit: Unit, tenant: Tenant, list: WordList, updatedAt: number) =>
      void put(unit, { ...tenant, words: JSON.stringify(list), updatedAt }),
  };
}
