/** The memory that native code has allocated from the C library and not released, over all threads. */
import { CString, dlopen, type Pointer } from "bun:ffi";

/** 0 where the C library does not tell. */
export function libcBytes(): number {
  const libc = openLibc();
  if (!libc) return 0;
  const { open_memstream, malloc_info, fclose, free } = libc.symbols;
  const place = new BigUint64Array(2);
  const stream = open_memstream(place, place.subarray(1));
  malloc_info(0, stream);
  fclose(stream);
  const address = Number(place[0]) as Pointer;
  const report = new CString(address).toString();
  free(address);
  libc.close();
  // Each arena has its own lines; those of all together are the last.
  const all = report.slice(report.lastIndexOf("</heap>"));
  const sizeOf = (kind: string) => Number(new RegExp(`type="${kind}"[^>]* size="(\\d+)"`).exec(all)?.[1] ?? 0);
  return sizeOf("current") + sizeOf("mmap") - sizeOf("fast") - sizeOf("rest");
}

function openLibc() {
  try {
    return dlopen("libc.so.6", {
      open_memstream: { args: ["ptr", "ptr"], returns: "ptr" },
      malloc_info: { args: ["i32", "ptr"], returns: "i32" },
      fclose: { args: ["ptr"], returns: "i32" },
      free: { args: ["ptr"], returns: "void" },
    });
  } catch {
    return null;
  }
}
