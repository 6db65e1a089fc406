//! As much of SMB 2.1 as a test needs that has to know when a flush was answered ([MS-SMB2]): a session without a name, one share, one file. smbclient closes what it
//! writes, and sends no flush.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

const NEGOTIATE: u16 = 0;
const SESSION_SETUP: u16 = 1;
const TREE_CONNECT: u16 = 3;
const CREATE: u16 = 5;
const FLUSH: u16 = 7;
const WRITE: u16 = 9;

const DIALECT_2_1: u16 = 0x0210;
const HEADER_BYTES: usize = 64;
/// Of an answer's flags.
const ASYNC: u32 = 2;
const MORE_PROCESSING_REQUIRED: u32 = 0xc000_0016;
/// Unicode, request for a target, NTLM; and that nobody is named.
const NTLM_FLAGS: u32 = 0x205;
const NTLM_ANONYMOUS: u32 = 0x800;

/// A connection with a share.
pub(super) struct Smb2 {
    stream: TcpStream,
    message: u64,
    session: u64,
    tree: u32,
}

/// What is open.
pub(super) struct FileId([u8; 16]);

impl Smb2 {
    /// A session of nobody's, in a share.
    pub(super) fn connect(address: SocketAddr, share: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut it = Self { stream, message: 0, session: 0, tree: 0 };
        let mut hello = [36_u16, 1, 1, 0].map(u16::to_le_bytes).concat();
        hello.extend([0; 4 + 16 + 8]);
        hello.extend(DIALECT_2_1.to_le_bytes());
        it.done(NEGOTIATE, &hello);

        let mut first = ntlm(1, NTLM_FLAGS);
        first.extend([0; 16]);
        assert_eq!(it.asks(SESSION_SETUP, &session_setup(&first)).0, MORE_PROCESSING_REQUIRED);
        let mut second = ntlm(3, 0);
        second.truncate(12);
        // Six fields of nothing, each at the end.
        (0..6).for_each(|_| second.extend([0, 0, 0, 0, 64, 0, 0, 0]));
        second.extend((NTLM_FLAGS | NTLM_ANONYMOUS).to_le_bytes());
        it.done(SESSION_SETUP, &session_setup(&second));

        let path = utf16(&format!("\\\\{}\\{share}", address.ip()));
        let mut tree = [9_u16, 0, HEADER_BYTES as u16 + 8, path.len() as u16].map(u16::to_le_bytes).concat();
        tree.extend(path);
        it.done(TREE_CONNECT, &tree);
        it
    }

    /// Makes a file, or empties it.
    pub(super) fn create(&mut self, name: &str) -> FileId {
        let name = utf16(name);
        let mut body = vec![57, 0, 0, 0];
        body.extend(2_u32.to_le_bytes());
        body.extend([0; 16]);
        // Rights to read and write, a normal file, shared with all, new or overwritten, no directory.
        for word in [0x0012_019f_u32, 0x80, 7, 5, 0x40] {
            body.extend(word.to_le_bytes());
        }
        body.extend((HEADER_BYTES as u16 + 56).to_le_bytes());
        body.extend((name.len() as u16).to_le_bytes());
        body.extend([0; 8]);
        body.extend(name);
        let answer = self.done(CREATE, &body);
        FileId(answer[64..80].try_into().unwrap())
    }

    /// Writes at its beginning.
    pub(super) fn write(&mut self, file: &FileId, data: &[u8]) {
        let mut body = [49_u16, HEADER_BYTES as u16 + 48].map(u16::to_le_bytes).concat();
        body.extend((data.len() as u32).to_le_bytes());
        body.extend([0; 8]);
        body.extend(file.0);
        body.extend([0; 16]);
        body.extend(data);
        self.done(WRITE, &body);
    }

    /// Comes back when what was written is on stable storage.
    pub(super) fn flush(&mut self, file: &FileId) {
        let mut body = vec![24, 0, 0, 0, 0, 0, 0, 0];
        body.extend(file.0);
        self.done(FLUSH, &body);
    }

    fn done(&mut self, command: u16, body: &[u8]) -> Vec<u8> {
        let (status, answer) = self.asks(command, body);
        assert_eq!(status, 0, "command {command} is answered with {status:#x}");
        answer
    }

    /// The status of an answer, and what is behind its header.
    fn asks(&mut self, command: u16, body: &[u8]) -> (u32, Vec<u8>) {
        let mut packet = b"\xfeSMB\x40\0\x01\0\0\0\0\0".to_vec();
        packet.extend(command.to_le_bytes());
        packet.extend(32_u16.to_le_bytes());
        packet.extend([0; 8]);
        packet.extend(self.message.to_le_bytes());
        packet.extend([0; 4]);
        packet.extend(self.tree.to_le_bytes());
        packet.extend(self.session.to_le_bytes());
        packet.extend([0; 16]);
        packet.extend(body);
        self.message += 1;
        self.stream.write_all(&[&(packet.len() as u32).to_be_bytes()[..], &packet].concat()).unwrap();
        loop {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length).unwrap();
            let mut answer = vec![0; u32::from_be_bytes(length) as usize];
            self.stream.read_exact(&mut answer).unwrap();
            let word = |at: usize| u32::from_le_bytes(answer[at..at + 4].try_into().unwrap());
            // That it will take a while.
            if word(8) == 0x103 {
                continue;
            }
            self.session = u64::from_le_bytes(answer[40..48].try_into().unwrap());
            // What took a while has another number in the place of the tree's.
            if word(16) & ASYNC == 0 {
                self.tree = word(36);
            }
            return (word(8), answer.split_off(HEADER_BYTES));
        }
    }
}

fn ntlm(kind: u32, flags: u32) -> Vec<u8> {
    [&b"NTLMSSP\0"[..], &kind.to_le_bytes(), &flags.to_le_bytes()].concat()
}

fn session_setup(token: &[u8]) -> Vec<u8> {
    let mut body = vec![25, 0, 0, 1];
    body.extend([0; 8]);
    body.extend((HEADER_BYTES as u16 + 24).to_le_bytes());
    body.extend((token.len() as u16).to_le_bytes());
    body.extend([0; 8]);
    body.extend(token);
    body
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
