use super::*;

/// All bytes, in the order in which they are sent.
fn flat(encoder: &Encoder) -> Vec<u8> {
    let (own, shared) = encoder.clone().into_parts();
    let mut bytes = Vec::new();
    let mut from = 0;
    for (at, piece) in shared {
        bytes.extend_from_slice(&own[from..at]);
        bytes.extend_from_slice(&piece);
        from = at;
    }
    bytes.extend_from_slice(&own[from..]);
    bytes
}

fn piece(bytes: &'static [u8]) -> Bytes {
    Bytes::from_static(bytes)
}

/// Words and shared bytes by turns; after each step all bytes, and how many there are.
#[test]
fn shared_bytes_count_like_others_and_can_be_taken_back() {
    let mut encoder = Encoder::new();
    let mut steps = vec![(0, Vec::new())];
    let mut other = Encoder::new();
    other.u32(4).opaque_shared([piece(b"x")]);
    let writes: [&dyn Fn(&mut Encoder); 6] = [
        &|out| _ = out.u32(1),
        &|out| _ = out.opaque_shared([piece(b"abc"), piece(b"de")]),
        &|out| _ = out.u32(2),
        &|out| _ = out.opaque_shared([]),
        &|out| _ = out.append(other.clone()),
        &|out| _ = out.u32(3).opaque_shared([piece(b"four")]),
    ];
    for write in writes {
        write(&mut encoder);
        let bytes = flat(&encoder);
        assert_eq!(encoder.len(), bytes.len());
        assert!(bytes.starts_with(&steps.last().unwrap().1));
        steps.push((encoder.len(), bytes));
    }
    for (length, bytes) in &steps {
        let mut cut = encoder.clone();
        cut.truncate(*length);
        assert_eq!(flat(&cut), *bytes, "cut to {length}");
    }
}

#[test]
fn a_number_is_replaced_where_it_was_written() {
    let mut encoder = Encoder::new();
    let mut places = Vec::new();
    for number in 0..4 {
        places.push(encoder.len());
        encoder.u32(number).opaque_shared([piece(b"abc"), piece(b"defgh")]);
    }
    for (number, place) in (0..).zip(&places) {
        encoder.replace_u32(*place, 100 + number);
    }
    let bytes = flat(&encoder);
    for (number, place) in (0..).zip(places) {
        assert_eq!(bytes[place..place + 4], (100_u32 + number).to_be_bytes());
    }
}

/// Behind bytes of a file whose number is no multiple of four, whatever was padded had padding that was not its own: `owner` behind a READ of nine bytes, and
/// all that came behind it.
#[test]
fn what_stands_behind_shared_bytes_is_padded_by_its_own_length() {
    for length in 0..9 {
        let mut encoder = Encoder::new();
        encoder.opaque_shared([piece(&b"shared bytes"[..length])]).opaque(b"own").opaque(b"four").u32(7);
        let expected = Encoder::new().opaque(&b"shared bytes"[..length]).opaque(b"own").opaque(b"four").u32(7).to_vec();
        assert_eq!(flat(&encoder), expected, "{length}");
    }
}
