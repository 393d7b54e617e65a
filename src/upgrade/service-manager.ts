/** What this process tells systemd, in the protocol of sd_notify(3). */
import { FFIType, ptr } from "bun:ffi";
import { openLibc } from "../kernel/libc.ts";

const { i32, ptr: pointer, u32, u64 } = FFIType;
const SYMBOLS = {
  socket: { args: [i32, i32, i32], returns: i32 },
  sendto: { args: [i32, pointer, u64, i32, pointer, u32], returns: FFIType.i64 },
  close: { args: [i32], returns: i32 },
} as const;

const AF_UNIX = 1;
/** SOCK_DGRAM | SOCK_CLOEXEC of Linux. */
const DATAGRAMS = 0o2000002;
const MAX_PATH_BYTES = 107;

/**
 * Whether systemd ends this service when this process ends, because the unit does not let another process become the main one.
 * systemd before 248 does not tell a process its main process id.
 */
export function endsWithService(): boolean {
  const { SYSTEMD_EXEC_PID, INVOCATION_ID, NOTIFY_SOCKET } = process.env;
  if (NOTIFY_SOCKET) return false;
  if (SYSTEMD_EXEC_PID !== undefined) return SYSTEMD_EXEC_PID === String(process.pid);
  return INVOCATION_ID !== undefined && process.ppid === 1;
}

/**
 * Declares the process as the main process of its systemd service, so that the service ends with it. Does nothing outside of
 * systemd.
 */
export function setMainProcess(pid: number): void {
  const path = process.env.NOTIFY_SOCKET;
  const libc = path ? openLibc(SYMBOLS) : null;
  if (!path || !libc) return;
  const name = Buffer.from(path).subarray(0, MAX_PATH_BYTES);
  // `struct sockaddr_un`. "@" begins a name in the abstract namespace, which is not terminated.
  const address = Buffer.alloc(2 + MAX_PATH_BYTES + 1);
  address.writeUInt16LE(AF_UNIX);
  name.copy(address, 2);
  if (path.startsWith("@")) address[2] = 0;
  const addressBytes = 2 + name.byteLength + (path.startsWith("@") ? 0 : 1);
  const message = Buffer.from(`MAINPID=${pid}`);
  const fd = libc.symbols.socket(AF_UNIX, DATAGRAMS, 0);
  libc.symbols.sendto(fd, ptr(message), message.byteLength, 0, ptr(address), addressBytes);
  libc.symbols.close(fd);
  libc.close();
}
