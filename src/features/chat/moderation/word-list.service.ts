import type { Author } from "../../../kernel/author.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type Tenant, tenantKey, tenantsWith } from "../../../kernel/tenant.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { wordListStore } from "./word-list.store.ts";
import { type CompiledList, compileList, EMPTY_LIST, screen, type WordList } from "./word-list.ts";

export const MAX_LISTED_WORDS = 1_000;

export type WordListService = ReturnType<typeof wordListService>;

/** The word lists of projects. Asked for every message where there is one, so each stays in memory until it changes. */
export function wordListService({ bus, db, now }: Runtime) {
  const store = wordListStore(db);
  const tenants = tenantsWith(bus, store.tenants);
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
    const made = stored === null ? null : compileList(stored);
    compiled.set(key, made);
    return made;
  }

  return {
    get: (tenant: Tenant): WordList => store.get(tenant) ?? EMPTY_LIST,

    /** The whole list anew. */
    put(unit: Unit, { projectId, environment }: Tenant, input: WordList, author: Author): WordList {
      const once = (words: string[]) => [...new Set(words.map((word) => word.trim()))].filter((word) => word !== "");
      const list = { refuse: once(input.refuse), mask: once(input.mask), report: once(input.report) };
      if (list.refuse.length + list.mask.length + list.report.length > MAX_LISTED_WORDS) {
        throw invalid("refuse", `and mask and report together must have at most ${MAX_LISTED_WORDS} entries`);
      }
      const at = now();
      store.put(unit, { projectId, environment }, list, at);
      bus.publish(unit, "wordListChanged", { projectId, environment });
      bus.publish(unit, "audit", {
        ...{ ...author, environment, action: "word_list.updated", projectId, resourceId: environment, at },
        metadata: { refuse: list.refuse.length, mask: list.mask.length, report: list.report.length },
      });
      return list;
    },

    isUsed: tenants.has,

    /** What may be said of a text; throws when it may not be said at all. */
    screened(tenant: Tenant, text: string | null): { text: string | null; isReported: boolean } {
      const list = listOf(tenant);
      if (list === null || text === null) return { text, isReported: false };
      const { refused, ...left } = screen(list, text);
      if (refused) throw new ApiError("SVC_MESSAGE_REFUSED", "The message holds words that are not wanted here.");
      return left;
    },
  };
}
