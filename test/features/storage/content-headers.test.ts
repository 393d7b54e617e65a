import { expect, test } from "bun:test";
import { contentDisposition } from "../../../src/features/storage/content-headers.ts";
import { parseRange } from "../../../src/kernel/http/range.ts";

const disposition = (filename: string, mimeType = "application/octet-stream") =>
  contentDisposition({ filename, mimeType });

test("[contract 9] only images, audio and video known to be harmless are shown inline", () => {
  for (const type of ["image/png", "IMAGE/JPEG", "image/gif", "image/webp", "audio/mpeg", "video/mp4", "video/webm"]) {
    expect(disposition("a", type)).toStartWith("inline;");
  }
  for (const type of [
    "text/html",
    "image/svg+xml",
    "application/pdf",
    "application/xhtml+xml",
    "text/xml",
    "text/plain",
    "application/javascript",
    "image/x-unknown",
    "video/x-msvideo",
    "multipart/x-mixed-replace",
  ]) {
    expect(disposition("a", type)).toStartWith("attachment;");
  }
});

test("[contract 9] no filename can end the header, add a parameter or name a folder", () => {
  const names = [
    'a".html',
    "a\\",
    'x"; filename="evil.exe',
    "a\r\nset-cookie: x=1",
    "../../etc/passwd",
    "..\\..\\boot.ini",
    "nul\0byte",
    "tab\there",
    "line\u2028sep",
    "photo\u202egpj.exe",
    "\ud800lone",
    "%22%0d%0a",
    "'quote' (1)*",
    "%",
    "日本語.txt",
    "émoji 😀.png",
    ".",
    " ",
  ];
  for (const name of names) {
    const header = disposition(name);
    const match =
      /^attachment; filename="([\x20-\x21\x23-\x24\x26-\x5b\x5d-\x7e]*)"; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*)$/.exec(
        header,
      );
    expect({ name, header, ok: match !== null }).toEqual({ name, header, ok: true });
    const whole = decodeURIComponent(match?.[2] ?? "");
    expect(whole).not.toMatch(/[\\/\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
    expect(match?.[1]).not.toMatch(/[\\/]/);
    expect(() => new Headers({ "content-disposition": header })).not.toThrow();
  }
  expect(disposition("日本語.txt")).toBe(
    "attachment; filename=\"___.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC%E8%AA%9E.txt",
  );
  expect(disposition("plain name.txt")).toBe(
    "attachment; filename=\"plain name.txt\"; filename*=UTF-8''plain%20name.txt",
  );
});

test("[contract 9] ranges over a file of 10 bytes follow RFC 9110", () => {
  const of = (header: string | null) => parseRange(header, 10);
  expect(of("bytes=0-0")).toEqual({ start: 0, end: 0 });
  expect(of("bytes=0-9")).toEqual({ start: 0, end: 9 });
  expect(of("bytes=9-9")).toEqual({ start: 9, end: 9 });
  expect(of("bytes=3-")).toEqual({ start: 3, end: 9 });
  expect(of("bytes=3-1000")).toEqual({ start: 3, end: 9 });
  expect(of("bytes=-1")).toEqual({ start: 9, end: 9 });
  expect(of("bytes=-10")).toEqual({ start: 0, end: 9 });
  expect(of("bytes=-11")).toEqual({ start: 0, end: 9 });
  expect(of("BYTES=1-2")).toEqual({ start: 1, end: 2 });

  for (const none of ["bytes=10-", "bytes=10-10", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"]) {
    expect(of(none)).toBe("unsatisfiable");
  }
  for (const ignored of [
    null,
    "",
    "bytes",
    "bytes=",
    "bytes=-",
    "bytes=5-4",
    "bytes=0-1,3-4",
    "bytes=a-b",
    "items=0-1",
    "bytes=0x1-2",
    "bytes=--1",
  ]) {
    expect(of(ignored)).toBeNull();
  }
});
