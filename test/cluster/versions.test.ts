import { afterAll, beforeAll, expect, test } from "bun:test";
import { VERSION } from "../../src/kernel/version.ts";
import { stoa } from "../cli/stoa.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { checkoutOf } from "./checkout.ts";
import { Group, type GroupMember, readyz, SECRET } from "./group.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

const OTHER = "0.2.99";

/** The version that a server shows of itself, by where it shows it. */
async function shownBy({ url, output }: GroupMember): Promise<Record<string, string | undefined>> {
  const health = (await (await fetch(`${url}/healthz`)).json()) as { version: string };
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return {
    healthz: health.version,
    metrics: /^stoa_build_info\{version="([^"]*)"\} 1$/m.exec(metrics)?.[1],
    banner: /^Stoa (\S+) /m.exec(output())?.[1],
    log: /"version":"([^"]*)"/.exec(output())?.[1],
  };
}

test("every server names its version with the commit, and a mixed cluster differs visibly", async () => {
  expect(VERSION).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{7}$/);
  const other = checkoutOf(OTHER);
  const group = new Group(await postgres.database());
  try {
    const leader = await group.startFirst();
    await group.leader();
    const standby = await group.start("second", {}, other.root);
    const edge = await group.start("edge", { ROLE: "edge" });
    while ((await readyz(edge.url))?.status !== "ready") await Bun.sleep(50);
    const all = (version: string) => ({ healthz: version, metrics: version, banner: version, log: version });
    expect(await shownBy(leader)).toEqual(all(VERSION));
    expect(await shownBy(standby)).toEqual(all(OTHER));
    expect(await shownBy(edge)).toEqual(all(VERSION));

    const env = { COMMIT_LOG_URL: group.logUrl ?? "", STOA_SECRET: SECRET };
    const { members } = JSON.parse((await stoa(["cluster", "--json"], { env })).out) as {
      members: { url: string; version: string }[];
    };
    expect(Object.fromEntries(members.map(({ url, version }) => [url, version]))).toEqual({
      [leader.url]: VERSION,
      [standby.url]: OTHER,
      [edge.url]: VERSION,
    });
    expect(JSON.parse((await stoa(["version", "--json"])).out)).toMatchObject({ version: VERSION });
    const doctor = await stoa(["doctor", "--json"], { env: { ...env, DATA_DIR: leader.dataDir } });
    expect(doctor.out).toContain(`${standby.url} has ${OTHER}, and this is ${VERSION}`);
  } finally {
    await group.close();
    other.remove();
  }
}, 180_000);
