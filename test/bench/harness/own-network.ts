/**
 * Two networks of the bench's own with a cable between them, one for the servers and one for the load: nothing it sends
 * leaves them, and with the bench all of it is gone, processes included. Servers that leave loopback interfaces out find an
 * ordinary one here.
 */
import { run } from "./cache.ts";

const INSIDE = "STOA_BENCH_NETWORK";
export const SERVER_ADDRESS = "10.77.0.1";
export const LOAD_ADDRESS = "10.77.0.2";
/** An address on the load's side whose packets `swallowPackets` makes the network lose. */
export const SWALLOWED_ADDRESS = "10.77.1.1";
/** A folder that is gone with the bench. */
export const OWN_FOLDER = "/run";
/** In front of a command: runs it on the servers' side. */
export const ON_SERVER_SIDE = ["nsenter", `--net=${OWN_FOLDER}/netns/server`];

/** Runs this program again on the load's side, and ends with its exit code. Inside, returns. */
export async function enterOwnNetwork(): Promise<void> {
  if (process.env[INSIDE]) return setUp();
  const missing = ["unshare", "nsenter", "ip"].filter((program) => Bun.which(program) === null);
  if (missing.length > 0)
    throw new Error(`There is no ${missing.join(", ")} here: Debian has them in util-linux and iproute2.`);
  const root = process.getuid?.() === 0 ? [] : ["--map-root-user"];
  const namespaces = [...root, "--net", "--pid", "--mount-proc", "--fork", "--kill-child"];
  const child = Bun.spawn(["unshare", ...namespaces, process.execPath, ...process.argv.slice(1)], {
    env: { ...process.env, [INSIDE]: "1" },
    stdio: ["inherit", "inherit", "inherit"],
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill("SIGKILL"));
  process.exit(await child.exited);
}

/** Until this is undone, packets to that address are dropped and cost no receiver anything; packets from it are sent. */
export async function swallowPackets(): Promise<() => Promise<void>> {
  const rule = `pref 5 iif load to ${SWALLOWED_ADDRESS} blackhole`;
  await does(`ip rule add ${rule}`);
  return async () => void (await does(`ip rule del ${rule}`));
}

const does = (command: string) => run(command.split(" "), "/");

async function setUp(): Promise<void> {
  // The folder of named networks; this mount is visible only here.
  await does(`mount -t tmpfs none ${OWN_FOLDER}`);
  await does("ip netns add server");
  await does("ip link set lo up");
  await does("ip link add load type veth peer name server netns server");
  await does(`ip addr add ${LOAD_ADDRESS}/24 dev load`);
  await does(`ip addr add ${SWALLOWED_ADDRESS}/32 dev load`);
  await does("ip link set load up");
  // The rule for our own addresses comes first; it has to leave room in front of it.
  await does("ip rule add pref 10 lookup local");
  await does("ip rule del pref 0");
  await does("ip -n server link set lo up");
  await does(`ip -n server addr add ${SERVER_ADDRESS}/24 dev server`);
  await does("ip -n server link set server up");
  await does(`ip -n server route add ${SWALLOWED_ADDRESS} via ${LOAD_ADDRESS}`);
  // The kernel takes up to a second to call a cable plugged in.
  while (!(await does("ip -n server link show server")).includes("state UP")) await Bun.sleep(20);
}
