import { afterAll, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { VARIABLE_NAMES } from "../../src/kernel/config/variables.ts";
import { testServer } from "../harness/server.ts";
import { collectionsIn, longLivedCollections } from "./collections.ts";

const server = testServer();
afterAll(server.close);
const root = join(import.meta.dir, "../..");
const page = readFileSync(join(import.meta.dir, "BOUNDS.md"), "utf8");
const [tables = "", memory = "", collections = ""] = page.split(/^## /m).slice(1);
const rowsOf = (section: string) =>
  section
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("|---"))
    .slice(1)
    .map((line) => line.split("|").map((cell) => cell.trim()));

const known = new Set<string>(VARIABLE_NAMES);
const namesOf = (text: string) => [...text.matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)].map(([name]) => name);

test("[8] every table that the database has is on the page, with its bound, and no other", () => {
  const client = server.runtime.db.$client;
  const names = client
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map(({ name }) => name)
    // The parts of the full-text index go with it.
    .filter((name) => !name.startsWith("sqlite_") && !/^message_search_/.test(name));
  const listed = rowsOf(tables).map(([, name = "", , bound = ""]) => {
    expect([name, bound.length > 3]).toEqual([name, true]);
    return name.replaceAll("`", "");
  });
  expect(listed.sort()).toEqual(names.sort());
});

test("[8] every map, set and list that outlives the call that made it is on the page, with its bound, and no other", () => {
  const listed = rowsOf(collections).flatMap(([, file = "", names = "", bound = ""]) => {
    expect([file, bound.length > 3]).toEqual([file, true]);
    // A constant that the bound is named by is in the file, unless it is a setting.
    const source = readFileSync(join(root, file.replaceAll("`", "")), "utf8");
    expect([file, namesOf(bound).filter((name) => !known.has(name) && !source.includes(name))]).toEqual([file, []]);
    return [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => `${file.replaceAll("`", "")} ${name}`);
  });
  const found = longLivedCollections(root).map(({ file, name }) => `src/${file} ${name}`);
  expect(found.length).toBeGreaterThan(200);
  expect(listed.sort()).toEqual(found.sort());
});

test("[8] the search finds collections in fields, in objects and in closures", () => {
  const source = `
    class Room { readonly #people = new Map<string, string>(); list: string[] = []; readonly known = new Set(["a"]);
      #late: string[] | null = null; #told: string[] | null = null; add() { this.#late ??= []; this.#told = ["b"]; } }
    const made = () => ({ inside: new Set<string>(), count: 0 });
    export function createCache() {
      const kept = new Map<string, number>();
      const local = new Map<string, number>();
      const passing: number[] = [];
      for (const one of [1, 2]) local.set("a", one);
      [1].forEach((one) => passing.push(one));
      return { keep: (key: string) => kept.set(key, local.size + passing.length) };
    }`;
  expect(collectionsIn("room.ts", source)).toEqual(["#people", "list", "#late", "inside", "kept"]);
});

test("[8] every variable and file that the page names exists", () => {
  const settings = namesOf(page.replace(collections, ""));
  const abbreviated = new Set(["REACTION_RATE_LIMIT", "VERIFY_EMAIL_RESEND"]);
  expect(settings.filter((name) => !known.has(name) && !abbreviated.has(name))).toEqual([]);
  for (const [, what = ""] of rowsOf(memory)) {
    for (const [, path = ""] of what.matchAll(/`([\w./-]+)`/g)) {
      expect([path, existsSync(join(root, path))]).toEqual([path, true]);
    }
  }
});

test("[8] every table whose rows expire has a job that removes them, and it runs with nothing to remove", async () => {
  const { createJobs } = await import("../../src/ops/jobs.ts");
  const jobs = new Map(createJobs(server.runtime, server.services).map((job) => [job.name, job]));
  const named = [...tables.matchAll(/\(((?:prune|sweep|clean-up|expire|tidy|keep)-[a-z]+)\)/g)].map(
    ([, name = ""]) => name,
  );
  expect(named.length).toBeGreaterThan(5);
  for (const name of new Set(named)) await jobs.get(name)?.runDue(server.clock.now());
  expect([...new Set(named)].filter((name) => !jobs.has(name))).toEqual([]);
});
