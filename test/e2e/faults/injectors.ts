import type { Subject } from "./subject.ts";
import type { ConnectionWire, PacketWire } from "./wires.ts";

export type World = { subject: Subject; packets: PacketWire; connections: ConnectionWire };

/** How long each trouble lasts. */
export type Lengths = { faultSeconds: number; stopSeconds: number };

type Fault = {
  readonly name: string;
  /** Makes it happen, and ends it. */
  inject(world: World, lengths: Lengths): Promise<void>;
};

const HOUR = 3600;
/** The clock's library looks at the new time once a second. */
const CLOCK_SEEN_MS = 1_500;

const seconds = (count: number) => Bun.sleep(count * 1000);

export const FAULTS: readonly Fault[] = [
  {
    name: "kill -9, twice",
    async inject({ subject }, { faultSeconds }) {
      for (let i = 0; i < 2; i++) {
        await subject.kill();
        await subject.start();
        // The second comes while all clients return.
        if (i === 0) await seconds(faultSeconds / 4);
      }
    },
  },
  {
    name: "connections that are half open",
    async inject({ connections }) {
      connections.fallSilent();
    },
  },
  {
    name: "a stopped process",
    async inject({ subject }, { stopSeconds }) {
      subject.signal("SIGSTOP");
      await seconds(stopSeconds);
      subject.signal("SIGCONT");
    },
  },
  {
    name: "lost, doubled and overtaking packets",
    async inject({ packets }, { faultSeconds }) {
      packets.set({ lossRatio: 0.1, duplicateRatio: 0.2, reorderRatio: 0.1 });
      await seconds(faultSeconds);
      packets.set({});
    },
  },
  {
    name: "a full disk",
    async inject({ subject }, { faultSeconds }) {
      subject.fillDisk();
      await seconds(faultSeconds);
      subject.freeDisk();
    },
  },
  {
    name: "a disk that refuses fsync",
    async inject({ subject }, { faultSeconds }) {
      // The thread of the database is the first one.
      const refuse = ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"];
      const strace = Bun.spawn(["strace", "-qq", "-o", "/dev/null", ...refuse, "-p", String(subject.pid)], {
        stderr: "inherit",
      });
      await seconds(faultSeconds);
      strace.kill("SIGINT");
      await strace.exited;
    },
  },
  {
    name: "no descriptor left",
    async inject({ subject }, { faultSeconds }) {
      const { descriptors, allowedDescriptors } = subject.usage();
      const allow = (count: number) => Bun.spawn(["prlimit", `--pid=${subject.pid}`, `--nofile=${count}:`]).exited;
      await allow(descriptors);
      await seconds(faultSeconds);
      await allow(allowedDescriptors);
    },
  },
  {
    name: "a clock that jumps an hour ahead, two back, and is right again",
    async inject({ subject }, { faultSeconds }) {
      for (const offset of [HOUR, -HOUR, 0]) {
        subject.moveClock(offset);
        await Bun.sleep(CLOCK_SEEN_MS);
        if (offset !== 0) await seconds(faultSeconds / 4);
      }
    },
  },
];
