import { afterAll, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPage } from "../web/sdk/page.ts";
import { Group } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

const SIZE = 256 * 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "stoa-device-"));
const mounted: string[] = [];

function run(...command: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr.toString()}`);
}

function mount(device: string, name: string): string {
  const place = join(folder, name);
  mkdirSync(place);
  run("mount", "-o", "loop", device, place);
  mounted.push(place);
  return place;
}

afterAll(() => {
  for (const place of mounted) run("umount", "--lazy", place);
  rmSync(folder, { recursive: true, force: true });
});

test("another machine takes over the replicated device without losing an acknowledged write", async () => {
  const page = openPage();
  const withoutAddress = giveAddress();
  const device = join(folder, "device");
  writeFileSync(device, "");
  truncateSync(device, SIZE);
  run("mkfs.ext4", "-q", "-F", device);
  const group = new Group(null);
  try {
    const first = await group.startFirst(join(mount(device, "one"), "data"));
    await group.balancer.found();
    const load = await Load.start(group);
    await load.more(200);
    // The machine is gone with what only its memory held: the other has what was written to the device until now.
    first.process.kill("SIGSTOP");
    const replicated = join(folder, "replicated");
    copyFileSync(device, replicated);
    await group.kill(first);
    await group.start("first", { DATA_DIR: join(mount(replicated, "two"), "data") });
    await load.more(100);
    expect(await load.finish()).toEqual(NOTHING_WRONG);
    expect(load.failed).toEqual([]);
  } finally {
    await group.close();
    withoutAddress();
    page.close();
  }
}, 180_000);
