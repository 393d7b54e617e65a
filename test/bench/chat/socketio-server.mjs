// What one builds in an afternoon with socket.io: join, store, acknowledge, emit to the room. Same SQLite, same pragmas.
import { Database } from "bun:sqlite";
import { Server as Engine } from "@socket.io/bun-engine";
import { Server } from "socket.io";

const db = new Database(`${process.argv[2]}/chat.db`, { create: true });
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = FULL");
db.run(
  "CREATE TABLE messages (id INTEGER PRIMARY KEY, room TEXT NOT NULL, sender TEXT NOT NULL, text TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT",
);
db.run("CREATE INDEX messages_by_room ON messages (room, id)");
const insert = db.prepare("INSERT INTO messages (room, sender, text, created_at) VALUES (?, ?, ?, ?)");

const io = new Server();
const engine = new Engine({ path: "/socket.io/" });
io.bind(engine);
io.on("connection", (socket) => {
  socket.on("join", ({ room, user }, done) => {
    socket.data.user = user;
    socket.join(room);
    done();
  });
  socket.on("send", ({ room, text }, done) => {
    const createdAt = Date.now();
    const { lastInsertRowid: id } = insert.run(room, socket.data.user, text, createdAt);
    io.to(room).emit("message", { id, room, sender: socket.data.user, text, createdAt });
    done({ id });
  });
});
const server = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 60, ...engine.handler() });
console.log(server.port);
